#ifndef GST_DECART_CGIO_H
#define GST_DECART_CGIO_H
#include <gio/gio.h>

// G_CONVERTER is a cast macro, which Swift cannot import.
static inline GConverter *gst_decart_gunzip_new(void) {
    return G_CONVERTER(g_zlib_decompressor_new(G_ZLIB_COMPRESSOR_FORMAT_GZIP));
}
#endif
