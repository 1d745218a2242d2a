#ifndef GST_DECART_CSRTP_H
#define GST_DECART_CSRTP_H
#include <srtp2/srtp.h>
#include <stdbool.h>
#include <string.h>

// Returns whether libsrtp works. Its initialisation fails the second time, and GStreamer's plugin srtp may have been first.
// Debian's libsrtp computes with NSS, whose start makes the whole process ignore SIGPIPE. A session starts NSS and the last
// one ends it, so one is made here, where the caller restores the host's disposition, and stays.
static inline bool gst_decart_srtp_init(void) {
    unsigned char key[SRTP_MAX_KEY_LEN] = {0};
    srtp_policy_t policy;
    static srtp_t session;
    (void)srtp_init();
    memset(&policy, 0, sizeof policy);
    srtp_crypto_policy_set_rtp_default(&policy.rtp);
    srtp_crypto_policy_set_rtcp_default(&policy.rtcp);
    policy.ssrc.type = ssrc_any_outbound;
    policy.key = key;
    return srtp_create(&session, &policy) == srtp_err_status_ok;
}

// Applies one SRTP profile to the RTP and the RTCP policy (RFC 3711).
static inline int gst_decart_srtp_set_profile(srtp_policy_t *policy, int aead) {
    srtp_profile_t profile = aead ? srtp_profile_aead_aes_128_gcm : srtp_profile_aes128_cm_sha1_80;
    srtp_err_status_t status = srtp_crypto_policy_set_from_profile_for_rtp(&policy->rtp, profile);
    if (status != srtp_err_status_ok) return (int)status;
    return (int)srtp_crypto_policy_set_from_profile_for_rtcp(&policy->rtcp, profile);
}
#endif
