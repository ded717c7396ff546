#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A checkpointed LMDB environment after power cuts.
. tests/powercut/common
powercut "${POWERCUT_STATES:-200}" envload envload verify
