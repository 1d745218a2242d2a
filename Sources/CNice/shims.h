// Parts of GLib and libnice that Swift cannot import: varargs, function-like macros and cast macros. No state, no
// decisions.
#ifndef GST_DECART_CNICE_H
#define GST_DECART_CNICE_H
#include <glib.h>
#include <glib-object.h>
#include <nice/agent.h>
#include <nice/interfaces.h>

// g_object_set is variadic. These settings are the same for all agents:
// - UPnP is off, because it needs contexts and sockets of its own.
// - Keepalives are connectivity checks, so that libnice notices a dead path.
// - Checks are paced at 5 ms, the minimum of RFC 8445 §14.2. At libnice's default of 20 ms, the pairs of two IPv4 and
//   two IPv6 addresses take 60 ms.
// - A check is sent up to six times within 6 s. With libnice's default of four, from 500 ms on, a path with 20 % loss
//   was given up.
static inline void gst_decart_nice_configure(NiceAgent *agent, gboolean controlling, gboolean force_relay,
                                             gboolean ice_tcp) {
    g_object_set(agent, "controlling-mode", controlling, "force-relay", force_relay, "ice-tcp", ice_tcp, "ice-udp", TRUE,
                 "upnp", FALSE, "keepalive-conncheck", TRUE, "stun-pacing-timer", 5u, "stun-initial-timeout", 200u,
                 "stun-max-retransmissions", 5u, NULL);
}

static inline void gst_decart_nice_set_stun_server(NiceAgent *agent, const char *host, guint port) {
    g_object_set(agent, "stun-server", host, "stun-server-port", port, NULL);
}

// Bounds the time that closing waits for a TURN server that no longer answers.
static inline void gst_decart_nice_hasten_close(NiceAgent *agent) {
    g_object_set(agent, "stun-initial-timeout", 200u, "stun-max-retransmissions", 2u, NULL);
}

static inline gulong gst_decart_nice_connect(NiceAgent *agent, const char *signal, GCallback handler, gpointer data,
                                             GClosureNotify destroy) {
    return g_signal_connect_data(agent, signal, handler, data, destroy, (GConnectFlags)0);
}

static inline void gst_decart_nice_disconnect(NiceAgent *agent, gulong handler) {
    g_signal_handler_disconnect(agent, handler);
}

// Notifies when the agent is finalised, and with it its last socket.
static inline void gst_decart_nice_on_release(NiceAgent *agent, GWeakNotify notify, gpointer data) {
    g_object_weak_ref(G_OBJECT(agent), notify, data);
}

static inline void gst_decart_nice_unref(NiceAgent *agent) { g_object_unref(agent); }
#endif
