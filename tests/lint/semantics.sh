#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tessera-semantics(7) names exactly the tests there are: tests/semantics/page -u brings it up to date.
set -u
made=$(tests/semantics/page) || exit 1
there=$(sed -n '/^\.\\" tests: begin/,/^\.\\" tests: end/{/^\.\\" tests: /!p}' man/tessera-semantics.7)
[ -n "$there" ] || { echo 'the page has no list of tests'; exit 1; }
diff <(echo "$there") <(echo "$made") && exit 0
echo 'run tests/semantics/page -u'
exit 1
