/* Status codes: one X-macro makes the enum, the names and the sentences.
 *
 * Every operating error in Weir is one of these codes. A function that can fail returns one. If a
 * person may read the outcome, it also fills a `weir_error` with a sentence that says what is
 * wrong, where, and what to do. Programmer errors (broken invariants) assert instead, in release
 * builds too. */
#ifndef WEIR_STATUS_H
#define WEIR_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, number, sentence). The numbers are part of the wire format and are never reused. */
#define WEIR_STATUS_MAP(X)                                                        \
	X(OK, 0, "success")                                                           \
	X(E_INVALID, 1, "invalid argument or configuration")                          \
	X(E_MEMORY, 2, "out of memory")                                               \
	X(E_LIMIT, 3, "a configured or built-in limit was exceeded")                  \
	X(E_CORRUPT, 4, "data failed its checksum or is not of the expected format")  \
	X(E_VERSION, 5, "a format or protocol version that this program cannot read") \
	X(E_IO, 6, "input or output failed")                                          \
	X(E_NOT_FOUND, 7, "no such table, partition, file or worker")                 \
	X(E_EXISTS, 8, "exists already with other properties")                        \
	X(E_TIMEOUT, 9, "the deadline passed")                                        \
	X(E_UNAVAILABLE, 10, "the peer cannot be reached")                            \
	X(E_CANCELLED, 11, "cancelled")                                               \
	X(E_CLOSED, 12, "closed")                                                     \
	X(E_BUSY, 13, "over capacity, try again")                                     \
	X(E_STALE, 14, "a newer attempt or incarnation has taken over")               \
	X(E_DUPLICATE, 15, "already applied")                                         \
	X(E_DROPPED, 16, "the step closed without this batch")                        \
	X(E_NOT_CURRENT, 17, "the server has not applied the requested step yet")     \
	X(E_NOT_FINITE, 18, "a NaN or an infinity in a push")                         \
	X(E_GENERATION, 19, "from another job or another generation of this job")     \
	X(E_STATE, 20, "not allowed in the present state")                            \
	X(E_UNSUPPORTED, 21, "not supported by this build or this peer")              \
	X(E_PARSE, 22, "text that does not parse")                                    \
	X(E_INTERNAL, 23, "internal error")                                           \
	X(E_NO_SPACE, 24, "the disk is full")                                         \
	X(E_MOVED, 25, "another server has this partition now")                       \
	X(E_LOST, 26, "a server has lost what it held")                               \
	X(E_DENIED, 27, "not allowed for who asks, by its certificate")

typedef enum weir_status {
#define WEIR_STATUS_ENUM(name, number, text) WEIR_##name = number,
	WEIR_STATUS_MAP(WEIR_STATUS_ENUM)
#undef WEIR_STATUS_ENUM
} weir_status;

#define WEIR_ERROR_TEXT_BYTES 768

/* An error for a person to read. The text is always NUL-terminated. Zero-initialise before use. */
typedef struct weir_error {
	weir_status status;
	char text[WEIR_ERROR_TEXT_BYTES];
} weir_error;

#if defined(__GNUC__)
#define WEIR_MUST_CHECK                 __attribute__((warn_unused_result))
#define WEIR_PRINTF(format_at, args_at) __attribute__((format(printf, format_at, args_at)))
#define WEIR_API                        __attribute__((visibility("default")))
#else
#define WEIR_MUST_CHECK
#define WEIR_PRINTF(format_at, args_at)
#define WEIR_API
#endif

/* The name of a status, "E_STALE", or "unknown" for a number that is not a status. Static
 * storage. */
WEIR_API const char *weir_status_name(weir_status status);
/* The sentence of WEIR_STATUS_MAP. Static storage. */
WEIR_API const char *weir_status_text(weir_status status);
/* Fills *err with the status and the formatted text, and returns the status: `return weir_fail(err,
 * ...)`. err may be NULL. */
WEIR_API weir_status weir_fail(weir_error *err, weir_status status, const char *format, ...) WEIR_PRINTF(3, 4);

#ifdef __cplusplus
}
#endif
#endif
