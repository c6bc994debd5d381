/* Limits of control messages, field by field. Private to wire*.c. */
#ifndef WEIR_WIRE_LIMITS_H
#define WEIR_WIRE_LIMITS_H

#include <protobuf-c/protobuf-c.h>

#include "weir/status.h"

/* Checks every string, bytes and repeated field of m and of the messages in it. No message type contains itself, so the depth is that of
 * weir.proto. */
weir_status wire_check_limits(const ProtobufCMessage *m, weir_error *err) WEIR_MUST_CHECK;

#endif
