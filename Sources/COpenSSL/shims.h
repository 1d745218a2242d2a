#ifndef GST_DECART_COPENSSL_H
#define GST_DECART_COPENSSL_H
#include <openssl/ssl.h>
#include <openssl/err.h>
#include <openssl/x509.h>
#include <openssl/srtp.h>
#endif
