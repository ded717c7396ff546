/* SPDX-License-Identifier: Apache-2.0 */
/* layer: store */
/* Whom HTTP trusts, against `openssl s_server`; without that program nothing is tested, and it says so. */
#include "store/http.h"

#include "base/err.h"
#include "unit.h"
#include "wire.h"

#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[] = "/tmp/check_http_tls.XXXXXX";
static pid_t server;
static unsigned port;
static const char *proxy = "";	/* as in http_conf */

static const char making[] =
	"cd '%s' && exec >log 2>&1 && "
	"for ca in good other; do openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
	"-days 2 -subj /CN=$ca -keyout $ca.key -out $ca.pem || exit 1; done && "
	"for who in server client stranger; do openssl req -newkey ec -pkeyopt "
	"ec_paramgen_curve:P-256 -nodes -subj /CN=$who -keyout $who.key -out $who.csr && "
	"echo subjectAltName=DNS:localhost >ext && "
	"case $who in stranger) ca=other ;; *) ca=good ;; esac && "
	"openssl x509 -req -in $who.csr -CA $ca.pem -CAkey $ca.key -CAcreateserial -days 2 "
	"-extfile ext -out $who.pem || exit 1; done";

static bool make_certificates(void)
{
	char cmd[2048];

	if (system("openssl version >/dev/null 2>&1"))
		return false;
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(cmd, sizeof(cmd), making, dir);
	ck_assert_msg(system(cmd) == 0, "%s/log tells what openssl said", dir);
	return true;
}

/* Serves until killed, on a port of its own choice, which it prints. */
static void serve(const char *more)
{
	char cmd[1024], line[256];
	int fds[2];
	FILE *f;

	CLEAN(pipe(fds));
	server = fork();
	if (!server) {
		dup2(fds[1], 1);
		dup2(fds[1], 2);
		close(fds[0]);
		snprintf(cmd, sizeof(cmd),
			 "cd '%s' && exec openssl s_server -accept 127.0.0.1:0 -cert server.pem -key server.key "
			 "-www %s </dev/null", dir, more);
		execl("/bin/sh", "sh", "-c", cmd, NULL);
		_exit(127);
	}
	close(fds[1]);
	f = fdopen(fds[0], "r");
	port = 0;
	while (!port && fgets(line, sizeof(line), f)) {
		const char *at = strncmp(line, "ACCEPT ", 7) ? NULL : strrchr(line, ':');

		if (at)
			port = (unsigned)strtoul(at + 1, NULL, 10);
	}
	ck_assert_uint_ne(port, 0);
	/* Not closed: the server goes on writing there. */
}

static void serve_no_more(void)
{
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
}

/* Names are of files in `dir`; NULL is none. */
static int ask(const char *host, const char *ca, const char *cert, char *why, size_t n)
{
	char url[128], ca_file[128], cert_file[128], key_file[128];
	struct http_conf conf = { .name = "t", .proxy = proxy };
	struct http_call c = { .method = "GET", .url = url };
	struct text text = TEXT_INIT;
	struct http *h;
	int r;

	snprintf(url, sizeof(url), "https://%s:%u/", host, port);
	snprintf(ca_file, sizeof(ca_file), "%s/%s.pem", dir, ca ? ca : "");
	snprintf(cert_file, sizeof(cert_file), "%s/%s.pem", dir, cert ? cert : "");
	snprintf(key_file, sizeof(key_file), "%s/%s.key", dir, cert ? cert : "");
	conf.ca_file = ca ? ca_file : NULL;
	conf.cert_file = cert ? cert_file : NULL;
	conf.key_file = cert ? key_file : NULL;
	CLEAN(http_new(&h, &conf, &text));
	r = http_do(h, &c);
	ck_assert_uint_eq(c.status, r == 0 ? 200 : 0);
	snprintf(why, n, "%s", http_why(&c));
	http_call_done(&c);
	http_free(h);
	text_done(&text);
	return r;
}

static void expect(int err, const char *host, const char *ca, const char *cert)
{
	char why[512];
	int r = ask(host, ca, cert, why, sizeof(why));

	ck_assert_msg(r == err, "%s with CA %s and certificate %s: %s: %s", host, ca ? ca : "(system)",
		      cert ? cert : "(none)", err_name(r), why);
	ck_assert_int_eq(*why != '\0', err != 0);
}

START_TEST(only_who_is_vouched_for_is_talked_to)
{
	char cmd[128];

	if (!make_certificates()) {
		fprintf(stderr, "check_http_tls: no openssl program here: not tested\n");
		return;
	}
	serve("");
	expect(0, "localhost", "good", NULL);
	expect(-EACCES, "localhost", "other", NULL);
	expect(-EACCES, "localhost", NULL, NULL);
	expect(-EACCES, "127.0.0.1", "good", NULL);	/* not the name in it */
	serve_no_more();

	serve("-Verify 1 -verify_return_error -CAfile good.pem");
	expect(0, "localhost", "good", "client");
	expect(-EACCES, "localhost", "good", NULL);
	expect(-EACCES, "localhost", "good", "stranger");
	serve_no_more();

	serve("-Verify 1 -verify_return_error -CAfile good.pem -no_tls1_3");
	expect(0, "localhost", "good", "client");
	expect(-EACCES, "localhost", "good", "stranger");
	serve_no_more();

	serve("-tls1_1 -cipher DEFAULT@SECLEVEL=0");
	expect(-ENOTCONN, "localhost", "good", NULL);
	serve_no_more();
	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", dir);
	CLEAN(system(cmd));
}
END_TEST

/* ---- through a proxy ---- */

static atomic_uint tunnels;
static atomic_bool forbids;
static char asked[256];

static int dial(const char *head)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	const char *colon = strchr(head, ':');
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	a.sin_port = htons((uint16_t)strtoul(colon ? colon + 1 : "0", NULL, 10));
	if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static bool pass(int from, int to)
{
	char buf[16384];
	ssize_t n = read(from, buf, sizeof(buf)), at = 0;

	while (n > 0 && at < n) {
		ssize_t put = write(to, buf + at, (size_t)(n - at));

		if (put <= 0)
			return false;
		at += put;
	}
	return n > 0;
}

static void serve_tunnel(struct wire_peer *p, void *arg)
{
	struct pollfd both[2];
	int far;

	(void)arg;
	if (!wire_read_head(p))
		return;
	snprintf(asked, sizeof(asked), "%.*s", (int)strcspn(p->head, "\r"), p->head);
	atomic_fetch_add(&tunnels, 1);
	far = atomic_load(&forbids) ? -1 : dial(p->head);
	if (far < 0) {
		wire_say(p, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
		return;
	}
	wire_say(p, "HTTP/1.1 200 Connection established\r\n\r\n");
	both[0] = (struct pollfd){ .fd = p->fd, .events = POLLIN };
	both[1] = (struct pollfd){ .fd = far, .events = POLLIN };
	for (bool on = true; on && poll(both, 2, -1) > 0;) {
		on = !both[0].revents || pass(p->fd, far);
		on = on && (!both[1].revents || pass(far, p->fd));
	}
	close(far);
}

static void expect_tunnels(unsigned n, const char *what)
{
	ck_assert_msg(atomic_load(&tunnels) == n, "%s: %u tunnels, not %u", what, atomic_load(&tunnels), n);
}

START_TEST(https_goes_through_a_tunnel_of_the_proxy_unless_it_is_excepted)
{
	struct wire *w;
	char at[64], cmd[128], want[64], why[512];

	if (!make_certificates()) {
		fprintf(stderr, "check_http_tls: no openssl program here: not tested\n");
		return;
	}
	serve("");
	w = wire_start(serve_tunnel, NULL);
	snprintf(at, sizeof(at), "http://127.0.0.1:%u", wire_port(w));
	snprintf(want, sizeof(want), "CONNECT localhost:%u HTTP/1.1", port);
	unsetenv("no_proxy");
	unsetenv("NO_PROXY");
	proxy = at;
	expect(0, "localhost", "good", NULL);
	expect_tunnels(1, "configured");
	ck_assert_str_eq(asked, want);
	/* Who is at its end is checked all the same. */
	expect(-EACCES, "localhost", "other", NULL);
	expect_tunnels(2, "untrusted");
	proxy = NULL;
	setenv("https_proxy", at, 1);
	expect(0, "localhost", "good", NULL);
	expect_tunnels(3, "https_proxy");
	setenv("NO_PROXY", "example.org,localhost", 1);
	expect(0, "localhost", "good", NULL);
	expect_tunnels(3, "NO_PROXY");
	setenv("NO_PROXY", "example.org", 1);
	expect(0, "localhost", "good", NULL);
	expect_tunnels(4, "NO_PROXY of others");
	proxy = "";
	expect(0, "localhost", "good", NULL);
	expect_tunnels(4, "none");
	/* What the proxy does not do was not sent. */
	proxy = at;
	unsetenv("NO_PROXY");
	atomic_store(&forbids, true);
	ck_assert_int_eq(ask("localhost", "good", NULL, why, sizeof(why)), -ENOTCONN);
	ck_assert_ptr_nonnull(strstr(why, "403"));
	wire_stop(w);
	ck_assert_int_eq(ask("localhost", "good", NULL, why, sizeof(why)), -ECONNREFUSED);
	serve_no_more();
	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", dir);
	CLEAN(system(cmd));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("http_tls");
	TCase *t = tcase_create("http_tls");

	tcase_set_timeout(t, 120);
	suite_add_tcase(s, t);
	tcase_add_test(t, only_who_is_vouched_for_is_talked_to);
	tcase_add_test(t, https_goes_through_a_tunnel_of_the_proxy_unless_it_is_excepted);
	return unit_run(s);
}
