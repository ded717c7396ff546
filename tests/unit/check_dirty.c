/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fault.h"
#include "base/scoped.h"
#include "io/dirty.h"
#include "unit.h"
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define SPAN    (1u << 19)
#define SEGMENT (64u << 10)

static struct budget *budget;
static struct dirty d;

static void setup(void)
{
	CLEAN(budget_new(&budget, UINT64_C(1) << 30));
	dirty_init(&d, budget);
}

static void teardown(void)
{
	dirty_done(&d);
	ck_assert_uint_eq(budget_used(budget, MEM_DIRTY), 0);
	budget_free(budget);
}

static uint64_t seed = 88172645463325252u;
static uint32_t rnd(uint32_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)((seed >> 33) % below);
}

/* What every byte should be: its state (0: not dirty), and its value or, STORED, where it went. */
static struct {
	uint8_t  state[SPAN];	/* enum dirty_state + 1 */
	uint8_t  value[SPAN];
	uint64_t where[SPAN];	/* segment << 32 | offset */
	uint64_t flush[SPAN];
	uint64_t turn[SPAN];
} model;

static struct tess_range some_range(void)
{
	uint32_t len = rnd(8) ? 1 + rnd(6000) : 1 + rnd(100000), off = rnd(SPAN);

	if (rnd(2))
		len = (len + 4095) & ~4095u, off &= ~4095u;
	return (struct tess_range){ off, len < SPAN - off ? len : SPAN - off };
}

static void do_write(struct tess_range r)
{
	static uint8_t p[SPAN];
	static uint64_t turn = 1, end;
	uint8_t v = (uint8_t)rnd(256);

	turn += rnd(3) == 0;
	/* What goes on where the last write ended shares its buffer. */
	if (rnd(3) == 0 && end < SPAN)
		r = (struct tess_range){ end, 1 + rnd(MIN(SPAN - (uint32_t)end, 3000u)) };
	end = r.off + r.len;

	for (uint64_t i = 0; i < r.len; i++) {
		p[i] = (uint8_t)(v + i * 7);
		model.state[r.off + i] = DIRTY_MEM + 1;
		model.value[r.off + i] = p[i];
		model.turn[r.off + i] = turn;
	}
	if (dirty_write(&d, r, p, SEGMENT, turn) < 0)
		ck_abort_msg("out of memory");
}

static void do_clip(struct tess_range r)
{
	memset(model.state + r.off, 0, r.len);
	CLEAN(dirty_clip(&d, r));
}

static uint64_t flushes;

static void do_freeze(struct tess_range r)
{
	uint64_t at = 0, no = ++flushes;

	CLEAN(dirty_cut(&d, r.off));
	CLEAN(dirty_cut(&d, r.off + r.len));
	for (struct dirty_node *n = dirty_next(&d, r.off); n && dirty_off(n) < r.off + r.len;
	     n = dirty_after(n)) {
		if (n->state != DIRTY_MEM)
			continue;
		for (uint64_t i = 0; i < n->len; i++) {
			model.state[dirty_off(n) + i] = DIRTY_FROZEN + 1;
			model.where[dirty_off(n) + i] = no << 32 | (at + i);
			model.flush[dirty_off(n) + i] = no;
		}
		dirty_freeze(&d, n, no, no, at);
		at += n->len;
	}
}

static void do_settle(struct tess_range r)
{
	uint64_t no = flushes - rnd(3);
	bool stored = rnd(3) != 0;

	dirty_settle(&d, (struct tess_range){ 0, SPAN }, no, stored);
	for (uint64_t i = 0; i < SPAN; i++)
		if (model.state[i] == DIRTY_FROZEN + 1 && model.flush[i] == no)
			model.state[i] = stored ? DIRTY_STORED + 1 : DIRTY_MEM + 1;
	(void)r;
}

/* Publishes everything stored, as extents. */
static void do_publish(struct tess_range r)
{
	struct dirty_node *n = dirty_next(&d, r.off);

	while (n) {
		struct tess_extent e = { dirty_off(n), n->len, n->seg, n->seg_off, n->turn };
		bool stored = n->state == DIRTY_STORED;
		uint64_t end = dirty_end(n);

		if (stored) {
			dirty_publish(&d, &e);
			memset(model.state + e.off, 0, e.len);
		}
		n = dirty_next(&d, end);
	}
}

static void compare(void)
{
	uint64_t at = 0;

	dirty_check(&d);
	for (struct dirty_node *n = dirty_next(&d, 0); n; n = dirty_after(n)) {
		for (; at < dirty_off(n); at++)
			if (model.state[at] != 0)
				ck_abort_msg("byte %llu is missing", (unsigned long long)at);
		for (uint64_t i = 0; i < n->len; i++, at++) {
			if (model.state[at] != n->state + 1)
				ck_abort_msg("byte %llu is %u, not %u", (unsigned long long)at, n->state + 1,
					     model.state[at]);
			if (model.turn[at] != n->turn)
				ck_abort_msg("byte %llu is of another turn", (unsigned long long)at);
			if (n->buf && (uint8_t)n->buf->data[n->at + i] != model.value[at])
				ck_abort_msg("byte %llu has another value", (unsigned long long)at);
			if (n->state != DIRTY_MEM &&
			    model.where[at] != (n->seg << 32 | (n->seg_off + i)))
				ck_abort_msg("byte %llu went elsewhere", (unsigned long long)at);
		}
	}
	for (; at < SPAN; at++)
		if (model.state[at] != 0)
			ck_abort_msg("byte %llu is missing", (unsigned long long)at);
}

START_TEST(random_operations_equal_a_byte_array)
{
	for (unsigned i = 0; i < 100000; i++) {
		struct tess_range r = some_range();
		uint32_t what = rnd(100);

		if (what < 70)
			do_write(r);
		else if (what < 80)
			do_clip(r);
		else if (what < 92)
			do_freeze(r);
		else if (what < 97)
			do_settle(r);
		else if (what < 98)
			do_publish(r);
		if (i % 5000 == 0)
			compare();
	}
	compare();
}
END_TEST

static uint64_t write_run(uint64_t off, uint64_t total, uint64_t piece)
{
	static char p[1 << 20];

	for (uint64_t at = 0; at < total; at += piece)
		CLEAN(dirty_write(&d, (struct tess_range){ off + at, piece }, p, 4u << 20, 0));
	return off + total;
}

START_TEST(split_requests_of_one_write_are_one_range)
{
	struct tess_range *r;
	unsigned n;

	/* How the kernel sends pwrite(47008 @ 47008), and a misaligned 1 MiB direct write. */
	write_run(47008, 2144, 2144);
	write_run(49152, 44864, 44864);
	write_run(1 << 20, 1048528, 1048528);
	write_run((1 << 20) + 1048528, 48, 48);
	CLEAN(dirty_ranges(&d, &r, &n));
	ck_assert_uint_eq(n, 2);
	ck_assert_uint_eq(r[0].off, 47008);
	ck_assert_uint_eq(r[0].len, 47008);
	ck_assert_uint_eq(r[1].len, 1 << 20);
	free(r);
	/* The 48 bytes lie in the buffer of what they continue. */
	ck_assert_uint_le(d.nodes[DIRTY_MEM], 3);
}
END_TEST

START_TEST(a_run_of_small_writes_fills_few_buffers)
{
	uint64_t bufs;

	write_run(0, 4u << 20, 4096);
	bufs = d.nodes[DIRTY_MEM];
	ck_assert_uint_le(bufs, 12);
	ck_assert_uint_le(budget_used(budget, MEM_DIRTY), 4u << 20);
	/* No buffer crosses a segment's border. */
	write_run(4u << 20, 4u << 20, 65536);
	for (struct dirty_node *n = dirty_next(&d, 0); n; n = dirty_after(n))
		ck_assert_uint_eq(dirty_off(n) >> 22, (dirty_end(n) - 1) >> 22);
}
END_TEST

START_TEST(a_lone_small_write_costs_a_page)
{
	write_run(123, 10, 10);
	write_run(1 << 18, 10, 10);
	ck_assert_uint_eq(budget_used(budget, MEM_DIRTY), 8192);
}
END_TEST

START_TEST(an_overwrite_stays_in_place_unless_a_reader_holds_the_bytes)
{
	struct dirty_node *n;
	char a[4096], b[4096];

	memset(a, 'a', sizeof(a));
	memset(b, 'b', sizeof(b));
	CLEAN(dirty_write(&d, (struct tess_range){ 0, 4096 }, a, SEGMENT, 0));
	CLEAN(dirty_write(&d, (struct tess_range){ 100, 10 }, b, SEGMENT, 0));
	ck_assert_uint_eq(d.nodes[DIRTY_MEM], 1);
	n = dirty_next(&d, 0);
	n->pinned = true;
	struct buf *held = buf_ref(n->buf);

	CLEAN(dirty_write(&d, (struct tess_range){ 200, 10 }, b, SEGMENT, 0));
	ck_assert_int_eq(held->data[200], 'a');
	ck_assert_uint_eq(d.bytes[DIRTY_MEM], 4096);
	buf_unref(held);
}
END_TEST

/* What the bytes of [off, off + len) are: nodes in a row, all of them `c`, and written in `turn`. */
static void expect_bytes(uint64_t off, uint64_t len, char c, uint64_t turn)
{
	for (uint64_t at = off; at < off + len;) {
		struct dirty_node *n = dirty_next(&d, at);

		ck_assert(n && dirty_off(n) <= at && n->state == DIRTY_MEM && n->turn == turn);
		for (; at < dirty_end(n) && at < off + len; at++)
			ck_assert_int_eq(n->buf->data[n->at + (at - dirty_off(n))], c);
	}
	dirty_check(&d);
}

static void write_bytes(uint64_t off, uint64_t len, char c, uint64_t turn)
{
	static char p[1 << 16];

	memset(p, c, sizeof(p));
	CLEAN(dirty_write(&d, (struct tess_range){ off, len }, p, SEGMENT, turn));
}

START_TEST(an_overwrite_of_another_turn_is_a_node_of_its_own)
{
	struct dirty_node *n;
	struct buf *held;

	write_bytes(0, 4096, 'a', 5);
	n = dirty_next(&d, 0);
	held = buf_ref(n->buf);
	write_bytes(100, 10, 'b', 6);
	ck_assert_uint_eq(d.nodes[DIRTY_MEM], 3);
	ck_assert_uint_eq(d.bytes[DIRTY_MEM], 4096);
	expect_bytes(0, 100, 'a', 5);
	expect_bytes(100, 10, 'b', 6);
	expect_bytes(110, 3986, 'a', 5);
	ck_assert_int_eq(held->data[105], 'a');
	ck_assert(dirty_next(&d, 0)->buf == held && dirty_next(&d, 110)->buf == held);
	/* Within a turn it stays in place. */
	write_bytes(102, 2, 'c', 6);
	write_bytes(200, 2, 'c', 5);
	ck_assert_uint_eq(d.nodes[DIRTY_MEM], 3);
	ck_assert_int_eq(held->data[200], 'c');
	/* All of a node, and of several. */
	write_bytes(100, 10, 'd', 7);
	expect_bytes(100, 10, 'd', 7);
	ck_assert_uint_eq(d.nodes[DIRTY_MEM], 3);
	write_bytes(50, 4000, 'e', 8);
	expect_bytes(50, 4000, 'e', 8);
	expect_bytes(4050, 46, 'a', 5);
	ck_assert_uint_eq(d.nodes[DIRTY_MEM], 3);
	buf_unref(held);
}
END_TEST

START_TEST(a_write_of_another_turn_goes_on_in_the_buffer)
{
	struct dirty_node *a, *b, *c;
	uint64_t used, room;

	write_bytes(0, 1000, 'a', 5);
	a = dirty_next(&d, 0);
	room = a->room;
	used = budget_used(budget, MEM_DIRTY);
	ck_assert_uint_eq(room, a->buf->cap - 1000);
	write_bytes(1000, 500, 'b', 6);
	b = dirty_next(&d, 1000);
	ck_assert(dirty_next(&d, 0) == a && b != a && b->buf == a->buf);
	ck_assert(a->len == 1000 && a->room == 0 && b->at == 1000 && b->room == room - 500);
	/* The room is the last one's, whose turn goes on in its node. */
	write_bytes(1500, 500, 'c', 6);
	ck_assert(b->len == 1000 && b->room == room - 1000);
	write_bytes(2000, 10, 'd', 5);
	c = dirty_next(&d, 2000);
	ck_assert(c->buf == a->buf && c->at == 2000 && b->room == 0 && c->room == room - 1010);
	ck_assert_uint_eq(d.nodes[DIRTY_MEM], 3);
	ck_assert_uint_eq(budget_used(budget, MEM_DIRTY), used);
	/* Behind b there is no room any more, c has it. */
	CLEAN(dirty_clip(&d, (struct tess_range){ 2000, 10 }));
	write_bytes(2000, 10, 'e', 6);
	ck_assert(dirty_next(&d, 2000)->buf != a->buf);
	expect_bytes(0, 1000, 'a', 5);
	expect_bytes(1000, 500, 'b', 6);
	expect_bytes(1500, 500, 'c', 6);
	expect_bytes(2000, 10, 'e', 6);
}
END_TEST

START_TEST(a_write_of_another_turn_that_the_room_does_not_hold)
{
	struct dirty_node *a, *b;
	uint64_t room;

	write_bytes(0, 1000, 'a', 5);
	a = dirty_next(&d, 0);
	room = a->room;
	/* Over what is there, too. */
	write_bytes(4096, 4096, 'x', 5);
	write_bytes(1000, 9000, 'b', 6);
	b = dirty_next(&d, 1000);
	ck_assert(b->buf == a->buf && b->len == room && a->room == 0 && b->room == 0);
	ck_assert_uint_eq(d.bytes[DIRTY_MEM], 10000);
	expect_bytes(0, 1000, 'a', 5);
	expect_bytes(1000, 9000, 'b', 6);
}
END_TEST

START_TEST(a_failed_allocation_leaves_the_room)
{
	static char p[20000];
	char spec[32];
	int e = -ENOMEM;

	write_bytes(0, 1000, 'a', 5);
	write_bytes(12000, 3000, 'a', 5);
	struct dirty_node *n = dirty_next(&d, 0);
	uint64_t room = n->room, used = budget_used(budget, MEM_DIRTY);

	memset(p, 'b', sizeof(p));
	for (unsigned i = 1; e < 0 && i < 40; i++) {
		snprintf(spec, sizeof(spec), "alloc@%u=ENOMEM", i);
		CLEAN(fault_set(spec));
		e = dirty_write(&d, (struct tess_range){ 1000, 12000 }, p, SEGMENT, 6);
		CLEAN(fault_set(NULL));
		dirty_check(&d);
		if (e == 0)
			break;
		ck_assert_int_eq(e, -ENOMEM);
		ck_assert(n->len == 1000 && n->room == room);
		ck_assert_uint_eq(budget_used(budget, MEM_DIRTY), used);
		expect_bytes(0, 1000, 'a', 5);
		expect_bytes(12000, 3000, 'a', 5);
	}
	ck_assert_int_eq(e, 0);
	ck_assert_uint_eq(n->room, 0);
	expect_bytes(1000, 12000, 'b', 6);
	expect_bytes(13000, 2000, 'a', 5);
}
END_TEST

START_TEST(a_failed_allocation_changes_nothing)
{
	static char p[300000];
	char spec[32];

	write_run(0, 100000, 1000);
	for (unsigned i = 1; i < 40; i++) {
		uint64_t before = d.bytes[DIRTY_MEM];
		int e;

		snprintf(spec, sizeof(spec), "alloc@%u=ENOMEM", i);
		CLEAN(fault_set(spec));
		e = dirty_write(&d, (struct tess_range){ 50000 + i * 3, 200000 }, p, SEGMENT, 0);
		CLEAN(fault_set(NULL));
		dirty_check(&d);
		if (e == 0)
			return;
		ck_assert_int_eq(e, -ENOMEM);
		ck_assert_uint_eq(d.bytes[DIRTY_MEM], before);
	}
	ck_abort_msg("never succeeded");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("dirty");
	TCase *c = tcase_create("dirty");

	tcase_set_timeout(c, 120);
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, random_operations_equal_a_byte_array);
	tcase_add_test(c, split_requests_of_one_write_are_one_range);
	tcase_add_test(c, a_run_of_small_writes_fills_few_buffers);
	tcase_add_test(c, a_lone_small_write_costs_a_page);
	tcase_add_test(c, an_overwrite_stays_in_place_unless_a_reader_holds_the_bytes);
	tcase_add_test(c, an_overwrite_of_another_turn_is_a_node_of_its_own);
	tcase_add_test(c, a_write_of_another_turn_goes_on_in_the_buffer);
	tcase_add_test(c, a_write_of_another_turn_that_the_room_does_not_hold);
	tcase_add_test(c, a_failed_allocation_leaves_the_room);
	tcase_add_test(c, a_failed_allocation_changes_nothing);
	suite_add_tcase(s, c);
	return unit_run(s);
}
