// Macros and varargs of GStreamer that Swift cannot import, three lines each.
#ifndef GST_DECART_CGSTREAMER_H
#define GST_DECART_CGSTREAMER_H
#define GST_USE_UNSTABLE_API
#include <gst/gst.h>
#include <gst/base/base.h>
#include <gst/video/video.h>
#include <gst/rtp/rtp.h>
#include <gst/sdp/sdp.h>
#endif
