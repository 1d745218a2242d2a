#ifndef GST_DECART_CSRTP_H
#define GST_DECART_CSRTP_H
#include <srtp2/srtp.h>
#endif
