#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A whole file system after power cuts: names, bytes, segments on targets, staging, the stores.
. tests/powercut/common
powercut "${POWERCUT_STATES:-200}" fsload fsverify
