#ifndef GST_DECART_CNICE_H
#define GST_DECART_CNICE_H
#include <glib.h>
#include <glib-object.h>
#include <nice/agent.h>
#endif
