#ifndef GST_DECART_CGIO_H
#define GST_DECART_CGIO_H
#include <gio/gio.h>
#include <errno.h>
#include <sys/epoll.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

// accept4, which glibc declares only with _GNU_SOURCE. With accept, a child that is made before fcntl would inherit the
// descriptor. SOCK_CLOEXEC and SOCK_NONBLOCK have these values on Linux; their header would make this module the owner of
// the C library's socket types in Swift.
static inline int gst_decart_accept(int listener) {
    return (int)syscall(SYS_accept4, listener, NULL, NULL, O_CLOEXEC | O_NONBLOCK);
}

// An epoll instance in place of poll. The bits of GPollFD's events are those of epoll's.
static inline int gst_decart_epoll_open(void) { return epoll_create1(EPOLL_CLOEXEC); }

// Returns 0, or −1 if the kernel refuses the descriptor.
static inline int gst_decart_epoll_add(int epoll, const GPollFD *polled, guint index) {
    struct epoll_event event = {.events = polled->events, .data = {.u32 = index}};
    return epoll_ctl(epoll, EPOLL_CTL_ADD, polled->fd, &event);
}

// Sets `revents` of the ready descriptors; the others keep theirs. Returns the number of ready ones.
static inline int gst_decart_epoll_wait(int epoll, GPollFD *polled, guint count, int timeout) {
    struct epoll_event events[64];
    int ready = epoll_wait(epoll, events, 64, timeout);
    for (int index = 0; index < ready; index++) {
        if (events[index].data.u32 < count) polled[events[index].data.u32].revents = (gushort)events[index].events;
    }
    return ready;
}

// An epoll instance of sockets that are this process's own: each call of the owner changes one of them.
enum {
    gst_decart_epoll_delete = EPOLL_CTL_DEL,
    gst_decart_epoll_insert = EPOLL_CTL_ADD,
    gst_decart_epoll_modify = EPOLL_CTL_MOD
};

// Returns 0, or the error.
static inline int gst_decart_epoll_set(int epoll, int operation, int descriptor, guint events, guint64 data) {
    struct epoll_event event = {.events = events, .data = {.u64 = data}};
    return epoll_ctl(epoll, operation, descriptor, &event) == 0 ? 0 : errno;
}

// Collects the sockets that are ready now, at most `capacity` (64). Returns their number.
static inline int gst_decart_epoll_collect(int epoll, guint64 *data, guint *events, int capacity) {
    struct epoll_event ready[64];
    int count = epoll_wait(epoll, ready, capacity < 64 ? capacity : 64, 0);
    for (int index = 0; index < count; index++) {
        data[index] = ready[index].data.u64;
        events[index] = ready[index].events;
    }
    return count;
}

// G_CONVERTER is a cast macro, which Swift cannot import.
static inline GConverter *gst_decart_gunzip_new(void) {
    return G_CONVERTER(g_zlib_decompressor_new(G_ZLIB_COMPRESSOR_FORMAT_GZIP));
}
static inline GConverter *gst_decart_gzip_new(void) {
    return G_CONVERTER(g_zlib_compressor_new(G_ZLIB_COMPRESSOR_FORMAT_GZIP, -1));
}
#endif
