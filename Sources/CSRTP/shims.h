#ifndef GST_DECART_CSRTP_H
#define GST_DECART_CSRTP_H
#include <srtp2/srtp.h>

// Applies one SRTP profile to the RTP and the RTCP policy (RFC 3711).
static inline int gst_decart_srtp_set_profile(srtp_policy_t *policy, int aead) {
    srtp_profile_t profile = aead ? srtp_profile_aead_aes_128_gcm : srtp_profile_aes128_cm_sha1_80;
    srtp_err_status_t status = srtp_crypto_policy_set_from_profile_for_rtp(&policy->rtp, profile);
    if (status != srtp_err_status_ok) return (int)status;
    return (int)srtp_crypto_policy_set_from_profile_for_rtcp(&policy->rtcp, profile);
}
#endif
