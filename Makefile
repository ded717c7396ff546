# SPDX-License-Identifier: Apache-2.0
#
# make              builds ./tessera; the first run makes configure and config.mk by itself
# make check        everything that can be tested here, with one closing line; make help lists the rest
#
# BUILD=DIR         object directory (default: build). Each has its own config.mk, so builds with
#                   different flags live side by side in one source tree.
# CONFIGURE_ARGS=…  handed to configure; --enable-sanitize=address,undefined or =thread,
#                   --enable-debug, --enable-werror, CC=clang. Remembered per object directory.
# V=1               show the commands
# TESTS=PATTERN     run only the tests whose name contains PATTERN
#
# Nothing is listed by hand: src/<layer>/*.c becomes lib<layer>.a, mappers/*.c libmappers.a,
# tools/*.c with all of them ./tessera, bench/*.c and tests/<tier>/*.c one program each,
# tests/lib/*.c libtest.a, which every test program is linked with, tests/preload/*.c one .so each.
# A test is linked with the archives of its layer and of those below. The layer of
# tests/unit/check_x.c is the one that has x.c; any test may say it itself in a comment line
# "layer: io" (or "layer: mappers") near its top; the others get all layers.
# tests/hpc/*.c are MPI programs and use nothing of the product.

BUILD ?= build
TOP := $(CURDIR)
SHELL := /bin/sh
say = $(if $(V),,@echo '  $(1)  $(2)';)
.DELETE_ON_ERROR:
.SUFFIXES:

# These work before anything is configured, or start make again.
BARE := clean distclean deps deps-test deps-libfuse help demo check check-san fuzz dist
GOALS := $(or $(MAKECMDGOALS),all)
.PHONY: all install uninstall bench tests $(BARE)
all:

ifneq ($(filter-out $(BARE),$(GOALS)),)
include $(BUILD)/config.mk
endif

# Arguments given now that differ from the remembered ones: configure again.
ARGS_FILE := $(BUILD)/configure.args
ifneq ($(origin CONFIGURE_ARGS),undefined)
ifneq ($(strip $(CONFIGURE_ARGS)),$(strip $(shell cat $(ARGS_FILE) 2>/dev/null)))
$(shell mkdir -p $(BUILD) && rm -f $(BUILD)/config.mk && echo '$(CONFIGURE_ARGS)' >$(ARGS_FILE))
endif
endif

$(BUILD)/config.mk: configure src/config.mk.in
	@mkdir -p $(BUILD)
	@touch $(ARGS_FILE)
	cd $(BUILD) && { $(TOP)/configure --quiet $$(cat configure.args) >configure.out || \
		{ cat configure.out; exit 1; }; } && cat configure.out

# autoconf, less its cache and by way of a temporary name: several makes may run in this tree.
configure: configure.ac
	@command -v autoconf >/dev/null || { echo 'autoconf is missing: run make deps' >&2; exit 1; }
	autom4te --no-cache --language=autoconf -o $@.$$$$ configure.ac && mv -f $@.$$$$ $@

# --- product ---------------------------------------------------------------------------------

LAYERS := base store oclass map meta io fs admin mount fuse
BELOW_base := base
BELOW_store := store base
BELOW_oclass := oclass base
BELOW_map := map mappers base
BELOW_mappers := map mappers base
BELOW_meta := meta base
BELOW_io := io map mappers meta oclass store base
BELOW_fs := fs $(BELOW_io)
BELOW_admin := admin $(BELOW_fs)
BELOW_mount := mount $(BELOW_admin)
BELOW_fuse := fuse $(BELOW_mount)
ARCHIVES := $(LAYERS) mappers

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2 \
	-Wimplicit-fallthrough -Wpointer-arith -Wwrite-strings
LANG_FLAGS := -std=gnu11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -pthread
PRODUCT_FLAGS := $(LANG_FLAGS) -Isrc -Iinclude -include src/base/banned.h $(DEFS) \
	-DTESS_VERSION='"$(VERSION)"' $(DEP_CFLAGS)
COMPILE = $(CC) $(PRODUCT_FLAGS) $(TEST_FLAGS) $(CPPFLAGS) $(WARN) $(WERROR) $(CFLAGS) $(SANFLAGS) -MMD -MP
LINK = $(CC) -pthread $(CFLAGS) $(SANFLAGS) $(LDFLAGS) $(RPATH) -Wl,--as-needed
LIBS = $(DEP_LIBS) -lm -ldl

src_of = $(wildcard $(if $(filter mappers,$(1)),mappers,src/$(1))/*.c)
objs_of = $(patsubst %.c,$(BUILD)/%.o,$(call src_of,$(1)))
ALL_OBJS := $(foreach a,$(ARCHIVES),$(call objs_of,$(a)))
TOOL_OBJS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tools/*.c))

# The list of members is a prerequisite too, or a deleted source would stay in its archive.
define archive_rule
$(BUILD)/lib$(1).a: $(call objs_of,$(1)) $(BUILD)/lib$(1).list
	@rm -f $$@
	$$(call say,AR,$$@)$$(AR) rcs $$@ $(call objs_of,$(1))
$(BUILD)/lib$(1).list: FORCE
	@mkdir -p $$(@D); echo '$(call objs_of,$(1))' | cmp -s - $$@ || echo '$(call objs_of,$(1))' >$$@
endef
$(foreach a,$(ARCHIVES),$(eval $(call archive_rule,$(a))))

$(BUILD)/libtessera.a: $(foreach a,$(ARCHIVES),$(BUILD)/lib$(a).a)
	@rm -f $@
	$(call say,AR,$@)$(AR) rcs $@ $(ALL_OBJS)

$(BUILD)/tests/%.o: TEST_FLAGS := -Itests/lib -Itests/unit
$(BUILD)/%.o: %.c $(BUILD)/config.mk
	@mkdir -p $(@D)
	$(call say,CC,$@)$(COMPILE) -c -o $@ $<

$(BUILD)/tessera: $(TOOL_OBJS) $(BUILD)/libtessera.a
	$(if $(TOOL_OBJS),$(call say,LD,$@)$(LINK) -o $@ $(TOOL_OBJS) $(BUILD)/libtessera.a $(LIBS))

all: $(BUILD)/libtessera.a $(if $(TOOL_OBJS),$(BUILD)/tessera)
# The one in the tree is of the default object directory.
ifeq ($(BUILD),build)
ifneq ($(TOOL_OBJS),)
all: tessera
tessera: $(BUILD)/tessera
	ln -sfn $< $@
endif
endif

# --- tests and benchmarks --------------------------------------------------------------------

# Programs of the first list of tiers are tests themselves; those of the second serve *.sh there,
# except the ones named check_*. Those of tests/servers serve other tests too, and are built with them.
PROGRAM_TIERS := unit prop store fault model fuzz
SCRIPT_TIERS := mount crash powercut semantics hpc servers
TIERS := lint $(PROGRAM_TIERS) $(SCRIPT_TIERS)

progs_of = $(patsubst %.c,$(BUILD)/%,$(wildcard tests/$(1)/*.c))
HPC_PROGS := $(if $(MPICC),$(call progs_of,hpc))
TEST_PROGS := $(foreach t,$(PROGRAM_TIERS) $(filter-out hpc,$(SCRIPT_TIERS)),$(call progs_of,$(t)))
PRELOADS := $(patsubst %.c,$(BUILD)/%.so,$(wildcard tests/preload/*.c))
BENCH_PROGS := $(patsubst %.c,$(BUILD)/%,$(wildcard bench/*.c))
TESTLIB_OBJS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/lib/*.c))

$(BUILD)/libtest.a: $(TESTLIB_OBJS)
	@rm -f $@
	$(call say,AR,$@)$(AR) rcs $@ $(TESTLIB_OBJS)

LAYER_TAGS := $(shell grep -m1 -oE 'layer: [a-z]+' tests/*/*.c bench/*.c /dev/null 2>/dev/null | tr -d ' ')
tag_of = $(patsubst $(1):layer:%,%,$(filter $(1):layer:%,$(LAYER_TAGS)))
module_of = $(patsubst check_%,%,$(basename $(notdir $(1))))
home_of = $(notdir $(patsubst %/,%,$(dir $(wildcard src/*/$(call module_of,$(1)).c \
	mappers/$(call module_of,$(1)).c))))
layer_of = $(firstword $(call tag_of,$(1)) $(call home_of,$(1)) fuse)

define test_rule
$(BUILD)/$(basename $(1)): $(BUILD)/$(basename $(1)).o $(BUILD)/libtest.a \
		$(foreach a,$(BELOW_$(call layer_of,$(1))),$(BUILD)/lib$(a).a)
	$$(call say,LD,$$@)$$(LINK) -o $$@ $$< $(BUILD)/libtest.a -Wl,--start-group \
		$(foreach a,$(BELOW_$(call layer_of,$(1))),$(BUILD)/lib$(a).a) -Wl,--end-group \
		$$(CHECK_LIBS) $$(LIBS)
endef
$(foreach s,$(patsubst $(BUILD)/%,%.c,$(TEST_PROGS) $(BENCH_PROGS)),$(eval $(call test_rule,$(s))))

$(HPC_PROGS): $(BUILD)/%: %.c $(BUILD)/config.mk
	@mkdir -p $(@D)
	$(call say,MPICC,$@)$(MPICC) $(LANG_FLAGS) $(WARN) $(WERROR) $(CFLAGS) -o $@ $< -lm

$(PRELOADS): $(BUILD)/%.so: %.c $(wildcard tests/lib/*.h) $(BUILD)/config.mk
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(LANG_FLAGS) $(WARN) $(WERROR) $(CFLAGS) -fPIC -shared -o $@ $< -ldl

tests: $(TEST_PROGS) $(HPC_PROGS) $(PRELOADS)
bench-build: $(BENCH_PROGS)
bench: all bench-build
	@if [ -x bench/run ]; then BUILD=$(BUILD) bench/run $(BENCH_ARGS); else echo 'bench/run is missing'; exit 1; fi

# What tests/run is given for a tier: "tier:" and then its tests.
cases_of = $(1): $(if $(filter lint,$(1)),$(wildcard tests/lint/*.sh), \
	$(if $(filter $(1),$(PROGRAM_TIERS)),$(call progs_of,$(1)), \
	$(wildcard tests/$(1)/*.sh) $(filter $(BUILD)/tests/$(1)/check_%,$(call progs_of,$(1)))))
RUN = BUILD=$(BUILD) CC='$(CC)' MPICC='$(MPICC)' SANFLAGS='$(SANFLAGS)' TESTS='$(TESTS)' \
	LINT_CFLAGS='$(LANG_FLAGS) -Isrc -Iinclude $(DEFS) $(DEP_CFLAGS)' tests/run
.PHONY: check-built bench-build $(addprefix check-,$(TIERS))
# A tier never waits for another's programs; these need the program tessera besides their own.
MOUNT_TIERS := fault model $(SCRIPT_TIERS)
SERVED_TIERS := store $(MOUNT_TIERS)
# What the others test on a local store, this one does on real servers, with their programs.
SERVERS_USE := store model crash fault mount
# mount/46-old-kernel
LITMUS := $(BUILD)/tests/semantics/check_litmus
check-lint: ; @$(RUN) $(call cases_of,lint)
$(patsubst %,check-%,$(filter-out lint,$(TIERS))): check-%: need-check
	@$(MAKE) --no-print-directory tier-$*
	@$(RUN) $(call cases_of,$*)
$(patsubst %,tier-%,$(filter-out lint,$(TIERS))): tier-%: FORCE
	@$(MAKE) $(if $(V),,-s) --no-print-directory $(if $(filter $*,$(MOUNT_TIERS)),all) \
		$(if $(filter hpc,$*),$(HPC_PROGS),$(call progs_of,$*)) \
		$(if $(filter $*,$(SERVED_TIERS)),$(call progs_of,servers)) \
		$(if $(filter servers,$*),$(foreach t,$(SERVERS_USE),$(call progs_of,$(t))) $(HPC_PROGS)) \
		$(if $(filter mount servers,$*),$(LITMUS)) \
		$(if $(filter powercut,$*),$(PRELOADS)) nothing
check-built: need-check all tests
	@$(RUN) $(foreach t,$(TIERS),$(call cases_of,$(t)))
need-check:
	@[ '$(HAVE_CHECK)' = yes ] || \
		{ echo 'configure found no libcheck: make deps-test, or rm $(BUILD)/config.mk' >&2; exit 1; }

# From a fresh clone: first what is missing, then the tests.
check:
	@$(MAKE) --no-print-directory deps deps-test
	@$(MAKE) --no-print-directory -j$$(nproc) all tests
	@$(MAKE) --no-print-directory check-built

# The tiers that need no mount, again under the sanitizers.
SAN_TIERS := unit prop store fault model fuzz
check-san:
	@rc=0; for how in address,undefined thread; do \
		echo "-fsanitize=$$how"; \
		$(MAKE) --no-print-directory BUILD=$(BUILD)/san-$${how%%,*} \
			CONFIGURE_ARGS="--enable-debug --enable-sanitize=$$how" check-tiers || rc=1; \
	done; exit $$rc
check-tiers: need-check all $(foreach t,$(SAN_TIERS),$(call progs_of,$(t)))
	@$(RUN) $(foreach t,$(SAN_TIERS),$(call cases_of,$(t)))

# Longer than the replay of check-fuzz: make fuzz FUZZ=codec SECONDS=600, with clang's libFuzzer. What
# it finds new goes into the corpus of this object directory, what fails into its crash-* files.
FUZZ ?= opt
SECONDS ?= 60
fuzz:
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/libfuzzer CONFIGURE_ARGS='CC=clang --enable-debug \
		--enable-sanitize=address,undefined,fuzzer-no-link' libfuzzer FUZZ=$(FUZZ)
	@mkdir -p $(BUILD)/libfuzzer/corpus/$(FUZZ)
	cd $(BUILD)/libfuzzer && ./fuzz_$(FUZZ) -max_total_time=$(SECONDS) corpus/$(FUZZ) \
		$(wildcard $(TOP)/tests/fuzz/corpus/$(FUZZ))
libfuzzer: $(BUILD)/tests/fuzz/fuzz_$(FUZZ).o $(foreach a,$(ARCHIVES),$(BUILD)/lib$(a).a)
	$(LINK) -fsanitize=fuzzer -o $(BUILD)/fuzz_$(FUZZ) $< -Wl,--start-group \
		$(foreach a,$(ARCHIVES),$(BUILD)/lib$(a).a) -Wl,--end-group $(LIBS)

# --- installing and shipping -----------------------------------------------------------------

install: all
	install -d $(DESTDIR)$(bindir) $(DESTDIR)$(sbindir) $(DESTDIR)$(includedir)/tessera
	install -m 755 $(BUILD)/tessera $(DESTDIR)$(bindir)/tessera
	ln -sfn $(bindir)/tessera $(DESTDIR)$(sbindir)/mount.tessera
	ln -sfn $(bindir)/tessera $(DESTDIR)$(sbindir)/mount.fuse.tessera
	install -m 644 $(wildcard include/tessera/*.h) $(DESTDIR)$(includedir)/tessera/
	for m in $(wildcard man/*.[1-9]); do \
		d=$(DESTDIR)$(mandir)/man$${m##*.} && install -d $$d && install -m 644 $$m $$d/ || exit; \
	done

uninstall:
	rm -f $(DESTDIR)$(bindir)/tessera $(DESTDIR)$(sbindir)/mount.tessera \
		$(DESTDIR)$(sbindir)/mount.fuse.tessera
	rm -rf $(DESTDIR)$(includedir)/tessera
	for m in $(notdir $(wildcard man/*.[1-9])); do \
		rm -f $(DESTDIR)$(mandir)/man$${m##*.}/$$m; \
	done

DIST = tessera-$(shell sed -n 's/^AC_INIT(\[tessera\], \[\(.*\)\])/\1/p' configure.ac)
dist: configure
	git archive --format=tar.gz --prefix=$(DIST)/ --add-file=configure -o $(DIST).tar.gz HEAD
	@echo $(DIST).tar.gz

clean:
	rm -rf $(BUILD)
	rm -f tessera
distclean: clean
	rm -f configure tessera-*.tar.gz
	rm -rf autom4te.cache

# --- what a fresh machine needs --------------------------------------------------------------

PKGS := autoconf gcc libc6-dev make pkg-config fuse3 libfuse3-dev liblmdb-dev libxxhash-dev \
	libjansson-dev libcurl4-openssl-dev libssl-dev libexpat1-dev libisal-dev liburing-dev librados-dev
PKGS_TEST := check acl attr clang clang-format curl mandoc mpich libmpich-dev universal-ctags
# What real object stores need, to be tested on: 120 MB. Where they cannot be had, their tests are skipped.
PKGS_CEPH := ceph-mon ceph-mgr ceph-osd ceph-common radosgw
PKGS_SWIFT := swift-proxy swift-account swift-container swift-object memcached
deps:
	@BUILD=$(BUILD) tests/packages $(PKGS)
deps-test:
	@BUILD=$(BUILD) tests/packages $(PKGS_TEST)
	@BUILD=$(BUILD) tests/packages -o $(PKGS_CEPH)
	@BUILD=$(BUILD) tests/packages -o $(PKGS_SWIFT)
# A libfuse with FUSE over io_uring, for CONFIGURE_ARGS=--with-fuse=$(LIBFUSE_PREFIX).
LIBFUSE_PREFIX ?= $(TOP)/build-libfuse
deps-libfuse:
	tools/deps-libfuse.sh $(LIBFUSE_PREFIX)

demo:
	@$(MAKE) --no-print-directory deps
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@BUILD=$(BUILD) tests/demo

help:
	@echo 'all check bench demo install uninstall dist clean distclean deps deps-test'
	@echo 'one tier of check: $(addprefix check-,$(TIERS)) check-san fuzz'
	@sed -n '3,/^$$/s/^# \{0,1\}//p' Makefile

nothing: ; @:
FORCE:
.PHONY: FORCE nothing libfuzzer need-check check-tiers
-include $(patsubst %.o,%.d,$(ALL_OBJS) $(TOOL_OBJS) $(TESTLIB_OBJS)) \
	$(addsuffix .d,$(TEST_PROGS) $(BENCH_PROGS))
