// OpenSSL's function-like macros, which Swift cannot import. No state, no decisions.
#ifndef GST_DECART_COPENSSL_H
#define GST_DECART_COPENSSL_H
#include <openssl/ssl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ec.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <openssl/srtp.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <sys/time.h>

static inline EVP_PKEY *gst_decart_generate_p256(void) { return EVP_EC_gen("P-256"); }
static inline EVP_PKEY *gst_decart_generate_rsa2048(void) { return EVP_RSA_gen(2048); }

static inline int gst_decart_ctx_set_versions(SSL_CTX *ctx, int minimum, int maximum) {
    return SSL_CTX_set_min_proto_version(ctx, minimum) && SSL_CTX_set_max_proto_version(ctx, maximum);
}
// No path MTU discovery (the caller sets the MTU), no session tickets, no renegotiation.
static inline void gst_decart_ctx_set_options(SSL_CTX *ctx) {
    SSL_CTX_set_options(ctx, SSL_OP_NO_QUERY_MTU | SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION |
                                 SSL_OP_CIPHER_SERVER_PREFERENCE);
}
// Replaces the options of openssl.cnf: no session tickets, no renegotiation, and OpenSSL's own defaults.
static inline void gst_decart_ctx_set_tls_options(SSL_CTX *ctx) {
    SSL_CTX_clear_options(ctx, SSL_CTX_get_options(ctx));
    SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                 SSL_OP_ENABLE_MIDDLEBOX_COMPAT);
}
// An idle connection keeps no buffers (34 KiB), and a write need not be repeated with the same pointer.
static inline void gst_decart_ctx_set_tls_mode(SSL_CTX *ctx) {
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}
static inline long gst_decart_ssl_set_server_name(SSL *ssl, const char *name) {
    return SSL_set_tlsext_host_name(ssl, name);
}
static inline int gst_decart_ctx_set_groups(SSL_CTX *ctx, const char *list) {
    return (int)SSL_CTX_set1_groups_list(ctx, list);
}
static inline void gst_decart_ctx_disable_cache(SSL_CTX *ctx) {
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
}
static inline void gst_decart_ctx_set_max_cert_list(SSL_CTX *ctx, long bytes) {
    SSL_CTX_set_max_cert_list(ctx, bytes);
}
static inline void gst_decart_ssl_set_mtu(SSL *ssl, long mtu) { SSL_set_mtu(ssl, mtu); }

// Microseconds until the retransmission timer fires; -1 if it is not running.
static inline long long gst_decart_dtls_timeout_us(SSL *ssl) {
    struct timeval left;
    if (!DTLSv1_get_timeout(ssl, &left)) return -1;
    return (long long)left.tv_sec * 1000000 + left.tv_usec;
}
static inline long gst_decart_dtls_handle_timeout(SSL *ssl) { return DTLSv1_handle_timeout(ssl); }

// A read from an empty memory BIO must report "try again" instead of end of file.
static inline BIO *gst_decart_memory_bio(void) {
    BIO *bio = BIO_new(BIO_s_mem());
    if (bio) BIO_set_mem_eof_return(bio, -1);
    return bio;
}
static inline long gst_decart_bio_pending(BIO *bio) { return (long)BIO_ctrl_pending(bio); }
static inline void gst_decart_bio_reset(BIO *bio) { (void)BIO_reset(bio); }
#endif
