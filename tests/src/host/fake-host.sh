#!/bin/sh
# In the host's place, for the tests of the harness: tells its arguments, then its admin address if it was given one,
# and then does as it was told.
echo "args: $*" >&2
[ -z "$FAKE_ADMIN" ] || echo "admin: $FAKE_ADMIN"
eval "$FAKE_THEN"
