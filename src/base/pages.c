/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pages.h"

#include "base/fault.h"
#include "base/list.h"
#include "base/lock.h"
#include <stdint.h>
#include <sys/mman.h>

#define PAGE       ((size_t)4096)
#define HUGE_PAGE  ((size_t)2 << 20)
#define CLASS_MIN  16u		/* 64 KiB: below it the general allocator keeps its memory anyway */
#define CLASS_MAX  24u		/* 16 MiB */
#define SLAB       ((size_t)1 << 20)
#define SLABS_KEPT 32u		/* of those nobody has a page of */
#define SLAB_PAGES (SLAB / PAGE - 1)	/* the first one says what is free */

/* A sanitizer sees what is used after it was freed only if it was freed. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RECYCLE 0
#else
#define RECYCLE 1
#endif

/* Aligned to its size, so that a page knows its slab. */
struct slab {
	struct list_node link;	/* slabs, when a page is free */
	void            *free;	/* first of the pages that were given back, linked by their first word */
	unsigned         nfree;	/* those, and the ones never taken */
	unsigned         carved;	/* pages that were taken at least once */
};

/* LOCK_LEAF; statically initialised because buffers may come before any constructor. */
static struct lock lock = { PTHREAD_MUTEX_INITIALIZER, "pages", LOCK_LEAF };
static struct {
	void  *kept[CLASS_MAX + 1];	/* linked by their first word */
	size_t bytes;			/* of them */
	struct list_node slabs;
	unsigned empty;			/* slabs of which no page is taken */
	size_t   keep;			/* bounds of the two */
	unsigned keep_slabs;
} pages = { .slabs = LIST_INIT(pages.slabs), .keep = PAGES_KEPT, .keep_slabs = SLABS_KEPT };

static void *map(size_t n, size_t align)
{
	char *p = mmap(NULL, n + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t head;

	if (p == MAP_FAILED)
		return NULL;
	head = (align - (uintptr_t)p % align) % align;
	if (head)
		munmap(p, head);
	munmap(p + head + n, align - head);
	return p + head;
}

/* ---- single pages ---- */

static void *page_of_slab(struct slab *s)
{
	void *p = s->free;

	if (p)
		s->free = *(void **)p;
	else
		p = (char *)s + ++s->carved * PAGE;
	if (s->nfree == SLAB_PAGES)
		pages.empty--;
	if (--s->nfree == 0)
		list_remove(&s->link);
	return p;
}

static void *page_take(void)
{
	struct slab *s;

	lock_take(&lock);
	if (list_empty(&pages.slabs)) {
		lock_drop(&lock);
		s = map(SLAB, SLAB);
		if (!s)
			return NULL;
		s->nfree = SLAB_PAGES;
		lock_take(&lock);
		pages.empty++;
		list_push_back(&pages.slabs, &s->link);
	}
	s = list_entry(pages.slabs.next, struct slab, link);
	void *p = page_of_slab(s);

	lock_drop(&lock);
	return p;
}

static void page_give(void *p)
{
	struct slab *s = (struct slab *)((uintptr_t)p & ~(SLAB - 1)), *gone = NULL;

	lock_take(&lock);
	*(void **)p = s->free;
	s->free = p;
	/* Full ones first, so that the others empty. */
	if (s->nfree++ == 0)
		list_push_front(&pages.slabs, &s->link);
	if (s->nfree == SLAB_PAGES && pages.empty++ >= pages.keep_slabs) {
		list_remove(&s->link);
		pages.empty--;
		gone = s;
	}
	lock_drop(&lock);
	if (gone)
		munmap(gone, SLAB);
}

/* ---- powers of two ---- */

/* The class of n, or 0: not one that is kept. */
static unsigned class_of(size_t n)
{
	unsigned c = (unsigned)__builtin_ctzl(n);

	return n == (size_t)1 << c && c >= CLASS_MIN && c <= CLASS_MAX ? c : 0;
}

static void *kept_take(unsigned c)
{
	void *p;

	lock_take(&lock);
	p = pages.kept[c];
	if (p) {
		pages.kept[c] = *(void **)p;
		pages.bytes -= (size_t)1 << c;
	}
	lock_drop(&lock);
	if (p)
		return p;
	p = map((size_t)1 << c, (size_t)1 << c < HUGE_PAGE ? PAGE : HUGE_PAGE);
	if (p && (size_t)1 << c >= HUGE_PAGE)
		(void)madvise(p, (size_t)1 << c, MADV_HUGEPAGE);
	return p;
}

/* Takes one out that nobody waits for, of another class than c if there is one: c's will be asked for. */
static void *evict_locked(unsigned c, size_t *ret_n)
{
	unsigned other = CLASS_MAX;
	void *p;

	while (other > CLASS_MIN && (other == c || !pages.kept[other]))
		other--;
	if (!pages.kept[other])
		other = c;
	p = pages.kept[other];
	pages.kept[other] = *(void **)p;
	*ret_n = (size_t)1 << other;
	pages.bytes -= *ret_n;
	return p;
}

static void kept_give(void *p, unsigned c)
{
	bool over;

	lock_take(&lock);
	*(void **)p = pages.kept[c];
	pages.kept[c] = p;
	pages.bytes += (size_t)1 << c;
	lock_drop(&lock);
	do {
		void *gone = NULL;
		size_t n = 0;

		lock_take(&lock);
		over = pages.bytes > pages.keep;
		if (over)
			gone = evict_locked(c, &n);
		lock_drop(&lock);
		if (gone)
			munmap(gone, n);
	} while (over);
}

/* ---- the front ---- */

void *pages_take(size_t n)
{
	unsigned c = class_of(n);

	if (!RECYCLE || (n != PAGE && !c))
		return mem_pages(n);
	if (fault_point("alloc"))
		return NULL;
	return c ? kept_take(c) : page_take();
}

void pages_give(void *p, size_t n)
{
	unsigned c = class_of(n);

	if (!p)
		return;
	if (!RECYCLE || (n != PAGE && !c))
		free(p);
	else if (c)
		kept_give(p, c);
	else
		page_give(p);
}

size_t pages_idle(void)
{
	size_t n;

	lock_take(&lock);
	n = pages.bytes;
	lock_drop(&lock);
	return n;
}

/* A slab of which no page is taken, out of the list; or NULL. */
static struct slab *empty_slab(void)
{
	struct slab *s = NULL;

	lock_take(&lock);
	list_for_each(n, &pages.slabs) {
		s = list_entry(n, struct slab, link);
		if (s->nfree == SLAB_PAGES)
			break;
		s = NULL;
	}
	if (s) {
		list_remove(&s->link);
		pages.empty--;
	}
	lock_drop(&lock);
	return s;
}

void pages_trim(void)
{
	struct slab *s;

	while ((s = empty_slab()))
		munmap(s, SLAB);
	for (unsigned c = CLASS_MIN; c <= CLASS_MAX; c++) {
		void *p, *next;

		lock_take(&lock);
		p = pages.kept[c];
		pages.kept[c] = NULL;
		for (void *x = p; x; x = *(void **)x)
			pages.bytes -= (size_t)1 << c;
		lock_drop(&lock);
		for (; p; p = next) {
			next = *(void **)p;
			munmap(p, (size_t)1 << c);
		}
	}
}

void pages_bound(size_t n)
{
	scoped_lock(&lock);
	pages.keep = n < PAGES_KEPT ? n / 2 : PAGES_KEPT;
	pages.keep_slabs = n / 2 / SLAB < SLABS_KEPT ? (unsigned)(n / 2 / SLAB) : SLABS_KEPT;
}
