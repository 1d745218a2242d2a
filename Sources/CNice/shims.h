// Parts of GLib and libnice that Swift cannot import: varargs, function-like macros and cast macros. No state, no
// decisions.
#ifndef GST_DECART_CNICE_H
#define GST_DECART_CNICE_H
#include <glib.h>
#include <glib-object.h>
#include <nice/agent.h>
#include <nice/interfaces.h>
#include <stun/stunagent.h>
#include <stun/usages/bind.h>
#include <stun/usages/ice.h>
#include <stun/usages/turn.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

// g_object_set is variadic. These settings are the same for all agents:
// - UPnP is off, because it needs contexts and sockets of its own.
// - Keepalives are indications: ConsentChecks notices a dead path.
// - Checks are paced at 5 ms, the minimum of RFC 8445 §14.2. At libnice's default of 20 ms, the pairs of two IPv4 and
//   two IPv6 addresses take 60 ms.
// - With five retransmissions, the default of ICEConfiguration, a check is sent up to six times within 6 s. With
//   libnice's default of three, from 500 ms on, a path with 20 % loss was given up.
static inline void gst_decart_nice_configure(NiceAgent *agent, gboolean controlling, gboolean force_relay, gboolean tcp,
                                             guint retransmissions) {
    g_object_set(agent, "controlling-mode", controlling, "force-relay", force_relay, "ice-tcp", tcp,
                 "upnp", FALSE, "keepalive-conncheck", FALSE, "stun-pacing-timer", 5u, "stun-initial-timeout", 200u,
                 "stun-max-retransmissions", retransmissions, NULL);
}

// The role, which g_object_set of gst_decart_nice_configure sets too, may have changed meanwhile.
static inline void gst_decart_nice_force_relay(NiceAgent *agent) { g_object_set(agent, "force-relay", TRUE, NULL); }

// Drops the checks that came before the remote credentials are known. libnice would answer each by a check of its own.
static inline void gst_decart_nice_forget_checks(NiceAgent *agent, guint stream, const char *fragment,
                                                 const char *password) {
    nice_agent_restart_stream(agent, stream);
    nice_agent_set_local_credentials(agent, stream, fragment, password);
}

static inline void gst_decart_nice_set_stun_server(NiceAgent *agent, const char *host, guint port) {
    g_object_set(agent, "stun-server", host, "stun-server-port", port, NULL);
}

// Bounds the time that closing waits for a TURN server that no longer answers.
static inline void gst_decart_nice_hasten_close(NiceAgent *agent) {
    g_object_set(agent, "stun-initial-timeout", 200u, "stun-max-retransmissions", 2u, NULL);
}

// g_signal_connect takes the functions by a cast. `destroy` is called when the handlers are disconnected.
static inline void gst_decart_nice_connect(
    NiceAgent *agent, void (*gathering_done)(NiceAgent *, guint, gpointer),
    void (*new_candidate)(NiceAgent *, NiceCandidate *, gpointer),
    void (*state_changed)(NiceAgent *, guint, guint, guint, gpointer),
    void (*new_pair)(NiceAgent *, guint, guint, NiceCandidate *, NiceCandidate *, gpointer), gpointer data,
    GClosureNotify destroy) {
    g_signal_connect(agent, "candidate-gathering-done", G_CALLBACK(gathering_done), data);
    g_signal_connect(agent, "new-candidate-full", G_CALLBACK(new_candidate), data);
    g_signal_connect(agent, "component-state-changed", G_CALLBACK(state_changed), data);
    g_signal_connect_data(agent, "new-selected-pair-full", G_CALLBACK(new_pair), data, destroy, (GConnectFlags)0);
}

// The agent's present role, which a role conflict may have changed.
static inline gboolean gst_decart_nice_is_controlling(NiceAgent *agent) {
    gboolean controlling = FALSE;
    g_object_get(agent, "controlling-mode", &controlling, NULL);
    return controlling;
}

// As libnice sets up its own STUN agents: for the checks of RFC 5245, and for STUN and TURN servers.
static inline void gst_decart_stun_init(StunAgent *agent, bool is_check) {
    int usage = is_check ? STUN_AGENT_USAGE_SHORT_TERM_CREDENTIALS | STUN_AGENT_USAGE_USE_FINGERPRINT
                         : STUN_AGENT_USAGE_LONG_TERM_CREDENTIALS;
    stun_agent_init(agent, STUN_ALL_KNOWN_ATTRIBUTES, STUN_COMPATIBILITY_RFC5389, (StunAgentUsageFlags)usage);
}

// A socket that announces changes of links, addresses and routes; -1 if the host has none. The kernel's headers for it
// would make this module the owner of the C library's socket types in Swift.
static inline int gst_decart_open_route_socket(void) {
    // struct sockaddr_nl; RTMGRP_LINK, RTMGRP_IPV4_IFADDR, RTMGRP_IPV4_ROUTE, RTMGRP_IPV6_IFADDR, RTMGRP_IPV6_ROUTE.
    const struct {
        unsigned short family, padding;
        unsigned int port, groups;
    } address = {AF_NETLINK, 0, 0, 0x1 | 0x10 | 0x40 | 0x100 | 0x400};
    const int route = 0;  // NETLINK_ROUTE
    int descriptor = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, route);
    if (descriptor >= 0 && bind(descriptor, (const struct sockaddr *)&address, sizeof address) != 0) {
        close(descriptor);
        return -1;
    }
    return descriptor;
}

// Reads all that waits. An overflow (ENOBUFS) is a change too.
static inline int gst_decart_drain_socket(int descriptor) {
    char buffer[8192];
    int changes = 0;
    for (;;) {
        ssize_t length = recv(descriptor, buffer, sizeof buffer, 0);
        if (length > 0 || (length < 0 && errno == ENOBUFS)) changes = 1;
        else if (length == 0 || errno != EINTR) return changes;
    }
}

// The file descriptor of the selected pair's socket; -1 if there is none, or if a TURN server relays. libnice owns it.
static inline int gst_decart_nice_selected_descriptor(NiceAgent *agent, guint stream) {
    GSocket *selected = nice_agent_get_selected_socket(agent, stream, 1);
    if (!selected) return -1;
    // The documentation says "transfer full", but not every release adds a reference: the count after a second call
    // shows it.
    guint references = ((GObject *)selected)->ref_count;
    nice_agent_get_selected_socket(agent, stream, 1);
    int descriptor = g_socket_get_fd(selected);
    if (((GObject *)selected)->ref_count > references) {
        g_object_unref(selected);
        g_object_unref(selected);
    }
    return descriptor;
}

// The file descriptors of the agent's UDP sockets. libnice owns them.
static inline int gst_decart_nice_datagram_descriptors(NiceAgent *agent, guint stream, int *descriptors, int maximum) {
    int count = 0;
    GPtrArray *sockets = nice_agent_get_sockets(agent, stream, 1);
    if (!sockets) return 0;
    for (guint index = 0; index < sockets->len && count < maximum; index++) {
        GSocket *item = (GSocket *)sockets->pdata[index];
        if (g_socket_get_socket_type(item) == G_SOCKET_TYPE_DATAGRAM) descriptors[count++] = g_socket_get_fd(item);
    }
    g_ptr_array_unref(sockets);
    return count;
}

// struct sock_filter of linux/filter.h, a header that would be this module's in Swift.
struct gst_decart_filter_step {
    guint16 code;
    guint8 if_true, if_false;
    guint32 value;
};

static inline gboolean gst_decart_attach_filter(int descriptor, const struct gst_decart_filter_step *steps,
                                                guint16 count) {
    struct {
        unsigned short count;
        const struct gst_decart_filter_step *steps;
    } program = {count, steps};
    return setsockopt(descriptor, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

// A TCP socket that does not block and that no child process inherits; -1 without a descriptor.
static inline int gst_decart_open_stream(int family) {
    return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

// Reads the first datagram; `peeks`: leaves it in the socket.
static inline ssize_t gst_decart_receive(int descriptor, void *buffer, size_t size, int peeks) {
    return recv(descriptor, buffer, size, MSG_DONTWAIT | (peeks ? MSG_PEEK : 0));
}

static inline gboolean gst_decart_would_block(void) { return errno == EAGAIN || errno == EWOULDBLOCK; }

// The kernel's struct mmsghdr: glibc declares it and sendmmsg only with _GNU_SOURCE, which Swift's importer lacks.
struct gst_decart_message {
    struct msghdr msg_hdr;
    unsigned int length;
};

// Datagrams of one system call.
enum { gst_decart_maximum_datagrams = 16 };
// UDP_SEGMENT of linux/udp.h, and the bytes that one buffer may have with it: an IP packet has at most 65,535.
enum { gst_decart_udp_segment = 103, gst_decart_largest_buffer = 65000 };

// True if the kernel cuts one large buffer into datagrams (UDP_SEGMENT, Linux 4.18). An earlier one would ignore the
// request and send the buffer as one datagram.
static inline gboolean gst_decart_segments(int descriptor) {
    int none = 0;
    return setsockopt(descriptor, IPPROTO_UDP, gst_decart_udp_segment, &none, sizeof none) == 0;
}

// Sends datagrams to one address in one system call, without waiting. Returns how many were sent, from the first on, or −1
// if the first one was not. With `segments`, consecutive datagrams of one size, and a smaller one behind them, go to the
// kernel as one buffer, which it segments as late as it can; `segments` becomes FALSE if the path does not permit that.
static inline int gst_decart_send_many(int descriptor, const void *address, guint address_length,
                                       const void *const *datagrams, const gsize *lengths, guint count,
                                       gboolean *segments) {
    struct iovec vectors[gst_decart_maximum_datagrams];
    struct gst_decart_message messages[gst_decart_maximum_datagrams];
    struct {
        struct cmsghdr header;
        guint16 size;
    } controls[gst_decart_maximum_datagrams];
    if (count == 0 || count > gst_decart_maximum_datagrams) return -1;
    for (;;) {
        guint used = 0;
        memset(messages, 0, sizeof messages);
        memset(controls, 0, sizeof controls);
        for (guint index = 0; index < count; used++) {
            struct msghdr *message = &messages[used].msg_hdr;
            gsize size = lengths[index], total = 0;
            message->msg_name = (void *)address;
            message->msg_namelen = address_length;
            message->msg_iov = &vectors[index];
            do {
                vectors[index].iov_base = (void *)datagrams[index];
                vectors[index].iov_len = lengths[index];
                total += lengths[index];
                message->msg_iovlen++;
                index++;
            } while (*segments && index < count && lengths[index - 1] == size && lengths[index] <= size &&
                     total + lengths[index] <= gst_decart_largest_buffer);
            if (message->msg_iovlen == 1) continue;
            controls[used].header.cmsg_level = IPPROTO_UDP;
            controls[used].header.cmsg_type = gst_decart_udp_segment;
            controls[used].header.cmsg_len = CMSG_LEN(sizeof(guint16));
            memcpy(CMSG_DATA(&controls[used].header), &(guint16){size}, sizeof(guint16));
            message->msg_control = &controls[used];
            message->msg_controllen = CMSG_LEN(sizeof(guint16));
        }
        int sent = (int)syscall(SYS_sendmmsg, descriptor, messages, used, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && messages[0].msg_hdr.msg_iovlen > 1 &&
            (errno == EIO || errno == EINVAL || errno == EMSGSIZE || errno == EOPNOTSUPP)) {
            // The device computes no checksums, or the MTU of the path is smaller than a datagram.
            *segments = FALSE;
            continue;
        }
        if (sent <= 0) return sent;
        int datagrams_sent = 0;
        for (int index = 0; index < sent; index++) datagrams_sent += (int)messages[index].msg_hdr.msg_iovlen;
        return datagrams_sent;
    }
}

// libnice's address as a socket address, of at most 128 bytes (struct sockaddr_storage); 0 if it has none.
static inline guint gst_decart_nice_socket_address(const NiceAddress *address, void *bytes) {
    nice_address_copy_to_sockaddr(address, (struct sockaddr *)bytes);
    switch (((struct sockaddr *)bytes)->sa_family) {
    case AF_INET: return sizeof(struct sockaddr_in);
    case AF_INET6: return sizeof(struct sockaddr_in6);
    default: return 0;
    }
}

// The address of this host from which datagrams to `remote` leave, as text of at most NICE_ADDRESS_STRING_LEN bytes; FALSE
// without a route. Connecting a UDP socket sends nothing.
static inline gboolean gst_decart_source_address(const char *remote, char *text) {
    NiceAddress address;
    struct sockaddr_storage bytes;
    nice_address_init(&address);
    if (!nice_address_set_from_string(&address, remote)) return FALSE;
    nice_address_set_port(&address, 53);
    socklen_t length = gst_decart_nice_socket_address(&address, &bytes), size = sizeof bytes;
    int descriptor = socket(bytes.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) return FALSE;
    gboolean found = connect(descriptor, (struct sockaddr *)&bytes, length) == 0 &&
                     getsockname(descriptor, (struct sockaddr *)&bytes, &size) == 0;
    close(descriptor);
    if (!found) return FALSE;
    nice_address_set_from_sockaddr(&address, (struct sockaddr *)&bytes);
    nice_address_to_string(&address, text);
    return TRUE;
}

static inline void gst_decart_nice_check_keepalives(NiceAgent *agent) {
    g_object_set(agent, "keepalive-conncheck", TRUE, NULL);
}

static inline void gst_decart_close_socket(int descriptor) { close(descriptor); }

#endif
