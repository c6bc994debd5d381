/* Connections that the server refused. Each stays open and unread for WEIR_REFUSAL_MS, because a
 * peer whose connection is closed at once opens the next one at once, and each costs the server 50
 * to 130 us. At most WEIR_REFUSED_HELD_MAX are open. The next one displaces the oldest, so a flood
 * from many sockets is refused as fast as it comes.
 *
 * A thread closes them. It runs while a connection is held. */
#ifndef WEIR_REFUSED_H
#define WEIR_REFUSED_H

/* Takes the descriptor of an accepted connection, and closes it later. */
void refused_hold(int fd);

#endif
