#ifndef GST_DECART_CRELEASE_H
#define GST_DECART_CRELEASE_H

// Scripts read the two strings from here too. The first entries of CHANGELOG.md and debian/changelog have the same.
#define DECART_VERSION "0.3.0"
#define DECART_RELEASE_DATE "2026-11-26"

// "commit " and the abbreviated commit, with "+changes" if files differ from it; "development build" if the build did
// not know it.
const char *decart_build_name(void);

#endif
