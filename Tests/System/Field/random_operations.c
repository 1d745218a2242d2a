/* Random operations of an application, all of them legal, on a pipeline with decarttransform and one with decartsrc.
 *
 *   random_operations SECONDS SEED URL     URL: of a stand-in with both transports
 *   random_operations SECONDS SEED own     GStreamer's own elements instead: a failure of these is one of this program
 *
 * check_field.py runs it with G_DEBUG=fatal-criticals. It prints each operation with its time. A failure ends with "hang in
 * OPERATION" and, if gdb is installed, the stacks of all threads, or with the message of GLib; a run ends with the count of
 * the operations. The seed decides on the operations, each by itself, but not on how the threads interleave. */
#include <dirent.h>
#include <gst/gst.h>
#include <gst/video/video.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Seconds. It only guards against a hang. */
enum { LONGEST_OPERATION = 60 };
/* What is left when all pipelines are gone: threads of pools, descriptors of the process itself. */
enum { MOST_THREADS = 24, MOST_DESCRIPTORS = 48 };

#define ONE_OF(list) ((list)[below (G_N_ELEMENTS (list))])

typedef struct {
    gboolean is_source; /* decartsrc, else decarttransform */
    gboolean is_live;
    GstElement *pipeline, *source, *caps, *mirror, *element, *queue, *sink;
    GstElement *audio; /* the source of the pad audio_sink or talkback */
    GstPad *audio_pad;
    GstElement *preview;
    GstPad *preview_pad;
    int injection;       /* the next buffer's event, see inject () */
    int missing_segment; /* 1 after a flush: another segment precedes the next buffer */
    int is_blocked;
} Line;

static const char *url; /* NULL: GStreamer's own elements */
static guint seed;
static int operations, restarts;
static gint64 started;
static GMutex line_lock; /* of the field `element` of both lines, a reference that the other thread takes too */
static Line lines[2] = { { .is_source = FALSE }, { .is_source = TRUE } };

/* --- Watchdog ---------------------------------------------------------------------------------------------------- */

/* The operation of a thread of the application. */
typedef struct {
    const char *operation;
    gint64 begun; /* 0: none */
} Task;

enum { TASKS = 16 };
static Task tasks[TASKS];
static GMutex tasks_lock;
static __thread int own_task;

static void begin (const char *name)
{
    gint64 now = g_get_monotonic_time ();
    g_mutex_lock (&tasks_lock);
    tasks[own_task] = (Task) { name, now };
    printf ("%8.3f %d %s\n", (double) (now - started) / G_USEC_PER_SEC, own_task, name);
    g_mutex_unlock (&tasks_lock);
}

static void end_task (void)
{
    g_mutex_lock (&tasks_lock);
    tasks[own_task].begun = 0;
    g_mutex_unlock (&tasks_lock);
}

static gpointer watch (gpointer unused G_GNUC_UNUSED)
{
    for (;;) {
        g_usleep (G_USEC_PER_SEC / 2);
        const char *name = NULL;
        g_mutex_lock (&tasks_lock);
        for (int i = 0; i < TASKS; i++)
            if (tasks[i].begun != 0 && g_get_monotonic_time () - tasks[i].begun > LONGEST_OPERATION * G_USEC_PER_SEC)
                name = tasks[i].operation;
        g_mutex_unlock (&tasks_lock);
        if (name == NULL)
            continue;
        printf ("hang in %s\n", name);
        fflush (stdout);
        char *command = g_strdup_printf (
            "gdb -q -batch -p %d -ex 'set pagination off' -ex 'thread apply all bt 40' 2>/dev/null", (int) getpid ());
        if (system (command) != 0)
            printf ("no stacks: gdb cannot attach\n");
        fflush (stdout);
        _exit (3);
    }
    return NULL;
}

/* --- Chance ------------------------------------------------------------------------------------------------------ */

/* Signal handlers and streaming threads have numbers of their own. */
static __thread guint own_seed;

/* 0 to limit - 1. */
static int below (int limit)
{
    if (own_seed == 0)
        own_seed = seed + 1;
    return limit <= 1 ? 0 : (rand_r (&own_seed) >> 4) % limit;
}

static gboolean has (gpointer object, const char *name)
{
    return g_object_class_find_property (G_OBJECT_GET_CLASS (object), name) != NULL;
}

static void set_arg (gpointer object, const char *name, const char *value)
{
    if (has (object, name))
        gst_util_set_object_arg (G_OBJECT (object), name, value);
}

static void set (Line *line, const char *name, const char *value)
{
    set_arg (line->element, name, value);
}

/* --- Handlers of the application --------------------------------------------------------------------------------- */

static void pad_added (GstElement *element, GstPad *pad, gpointer unused G_GNUC_UNUSED)
{
    if (GST_PAD_DIRECTION (pad) != GST_PAD_SRC || strcmp (GST_PAD_NAME (pad), "audio_src") != 0)
        return;
    g_autoptr (GstObject) pipeline = gst_object_get_parent (GST_OBJECT (element));
    if (pipeline == NULL)
        return;
    GstElement *sink = gst_element_factory_make ("fakesink", NULL);
    g_object_set (sink, "sync", TRUE, "async", FALSE, NULL);
    gst_bin_add (GST_BIN (pipeline), sink);
    g_autoptr (GstPad) end = gst_element_get_static_pad (sink, "sink");
    gst_pad_link (pad, end);
    gst_element_sync_state_with_parent (sink);
}

static char *request_api_key (void)
{
    if (below (8) == 0)
        g_usleep (700000);
    return g_strdup (below (6) != 0 ? "key" : "");
}

static void prompt_result (GstElement *element)
{
    g_autofree char *current = NULL;
    g_object_get (element, "prompt", &current, NULL);
    guint64 request;
    if (below (4) == 0)
        g_signal_emit_by_name (element, "set-prompt", "anime", TRUE, &request);
    if (below (10) == 0)
        g_signal_emit_by_name (element, "disconnect");
}

static void get (GObject *object, GParamSpec *property)
{
    if (property->flags & G_PARAM_READABLE) {
        g_auto (GValue) value = G_VALUE_INIT;
        g_value_init (&value, property->value_type);
        g_object_get_property (object, property->name, &value);
    }
}

static void notified (GObject *object, GParamSpec *property)
{
    get (object, property);
    if (below (30) == 0)
        set_arg (object, "mute-video", below (2) ? "true" : "false");
}

/* --- Pipelines --------------------------------------------------------------------------------------------------- */

/* In the streaming thread: what only upstream's streaming thread may send. */
static GstPadProbeReturn inject (GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
    static const char *const orientations[] = { "rotate-90", "rotate-180", "rotate-0", "flip-rotate-90" };
    Line *line = data;
    GstSegment segment;
    gst_segment_init (&segment, GST_FORMAT_TIME);
    if (g_atomic_int_compare_and_exchange (&line->missing_segment, 1, 0))
        gst_pad_push_event (pad, gst_event_new_segment (&segment));
    int injection = g_atomic_int_get (&line->injection);
    g_atomic_int_set (&line->injection, 0);
    GstBuffer *buffer = GST_PAD_PROBE_INFO_BUFFER (info);
    GstClockTime pts = GST_BUFFER_PTS (buffer);
    switch (injection) {
    case 1:
        gst_pad_push_event (pad, gst_event_new_gap (pts, GST_SECOND / 25));
        break;
    case 2:
        segment.rate = 2.0;
        gst_pad_push_event (pad, gst_event_new_segment (&segment));
        segment.rate = 1.0;
        if (below (2))
            gst_pad_push_event (pad, gst_event_new_segment (&segment));
        break;
    case 3:
        segment.base = 7 * GST_SECOND;
        segment.start = segment.time = pts;
        gst_pad_push_event (pad, gst_event_new_segment (&segment));
        break;
    case 4:
        gst_segment_init (&segment, GST_FORMAT_BYTES);
        gst_pad_push_event (pad, gst_event_new_segment (&segment));
        gst_segment_init (&segment, GST_FORMAT_TIME);
        if (below (2))
            gst_pad_push_event (pad, gst_event_new_segment (&segment));
        break;
    case 5:
        gst_pad_push_event (pad, gst_event_new_stream_start ("another"));
        break;
    case 6:
        gst_pad_push_event (
            pad, gst_event_new_tag (gst_tag_list_new (GST_TAG_IMAGE_ORIENTATION, ONE_OF (orientations), NULL)));
        break;
    case 7:
        GST_BUFFER_PTS (buffer) = GST_CLOCK_TIME_NONE;
        break;
    case 8:
        gst_pad_push_event (pad, gst_event_new_custom (GST_EVENT_CUSTOM_DOWNSTREAM, gst_structure_new_empty ("x")));
        break;
    case 9:
        gst_pad_push_event (pad, gst_video_event_new_downstream_force_key_unit (pts, pts, pts, TRUE, 1));
        break;
    case 10: {
        GstBufferList *list = gst_buffer_list_new ();
        gst_buffer_list_add (list, buffer);
        GST_PAD_PROBE_INFO_DATA (info) = NULL;
        GST_PAD_PROBE_INFO_FLOW_RETURN (info) = gst_pad_push_list (pad, list);
        return GST_PAD_PROBE_HANDLED;
    }
    case 11:
        GST_BUFFER_FLAG_SET (buffer, GST_BUFFER_FLAG_DISCONT);
        break;
    case 12:
        GST_BUFFER_PTS (buffer) = pts > 3 * GST_SECOND ? pts - 3 * GST_SECOND : 0;
        break;
    case 13:
        g_usleep (400000);
        break;
    case 14:
        gst_pad_push_event (pad, gst_event_new_segment_done (GST_FORMAT_TIME, pts));
        break;
    case 15: {
        g_autoptr (GstToc) toc = gst_toc_new (GST_TOC_SCOPE_GLOBAL);
        gst_pad_push_event (pad, gst_event_new_toc (toc, FALSE));
        break;
    }
    }
    return GST_PAD_PROBE_OK;
}

static GstElement *make (const char *text)
{
    return gst_parse_bin_from_description (text, TRUE, NULL);
}

static void make_element (Line *line)
{
    if (url == NULL) {
        line->element = make (line->is_source ? "videotestsrc is-live=true ! queue ! videoconvert ! queue"
                                              : "queue ! videoconvert ! queue");
        return;
    }
    static const char *const transports[] = { "webrtc", "livekit", "auto" };
    static const char *const processors[] = { "identity", "videobalance saturation=0 ! videoconvert", "queue ! identity",
                                              "tee name=t ! queue", "nonsense !" };
    line->element = gst_element_factory_make (line->is_source ? "decartsrc" : "decarttransform", NULL);
    g_object_set (line->element, "base-url", url, "api-key", "x", "stun-server", "", "width", 256, "height", 160, "model",
                  "lucy-2.1", "prompt", "lego", NULL);
    if (line->is_source)
        set (line, "source", below (4) ? "test" : "videotestsrc is-live=true ! video/x-raw,width=300,height=201");
    set (line, "transport", ONE_OF (transports));
    if (below (3) == 0)
        set (line, "processor", ONE_OF (processors));
    if (below (3) == 0)
        set (line, "timestamps", "capture");
    if (below (4) == 0)
        set (line, "auto-connect", "false");
    if (below (5) == 0)
        set (line, "output-size", "received");
    if (below (6) == 0)
        set (line, "framerate", "15");
    if (below (4) == 0)
        set (line, "audio-source", "audiotestsrc is-live=true");
    g_signal_connect (line->element, "pad-added", G_CALLBACK (pad_added), NULL);
    if (below (3) == 0)
        g_signal_connect (line->element, "request-api-key", G_CALLBACK (request_api_key), NULL);
    g_signal_connect (line->element, "prompt-result", G_CALLBACK (prompt_result), NULL);
    g_signal_connect (line->element, "notify", G_CALLBACK (notified), NULL);
}

static void set_caps (Line *line, const char *text)
{
    g_autoptr (GstCaps) caps = gst_caps_from_string (text);
    g_object_set (line->caps, "caps", caps, NULL);
}

static void build_locked (Line *line)
{
    gboolean is_source = line->is_source;
    memset (line, 0, sizeof *line);
    line->is_source = is_source;
    line->pipeline = gst_pipeline_new (NULL);
    line->sink = gst_element_factory_make ("fakesink", NULL);
    line->queue = gst_element_factory_make ("queue", NULL);
    g_object_set (line->sink, "sync", below (3) > 0, "qos", below (2), NULL);
    make_element (line);
    if (line->is_source) {
        gst_bin_add_many (GST_BIN (line->pipeline), line->element, line->queue, line->sink, NULL);
        gst_element_link_many (line->element, line->queue, line->sink, NULL);
        return;
    }
    line->is_live = below (3) > 0;
    line->source = gst_element_factory_make ("videotestsrc", NULL);
    g_object_set (line->source, "is-live", line->is_live, NULL);
    line->caps = gst_element_factory_make ("capsfilter", NULL);
    set_caps (line, "video/x-raw,width=320,height=240,framerate=25/1");
    line->mirror = gst_element_factory_make (url != NULL ? "decartmirror" : "identity", NULL);
    gst_bin_add_many (GST_BIN (line->pipeline), line->source, line->caps, line->mirror, line->element, line->queue,
                      line->sink, NULL);
    gst_element_link_many (line->source, line->caps, line->mirror, line->element, line->queue, line->sink, NULL);
    g_autoptr (GstPad) pad = gst_element_get_static_pad (line->mirror, "src");
    gst_pad_add_probe (pad, GST_PAD_PROBE_TYPE_BUFFER, inject, line, NULL);
}

static void build (Line *line)
{
    g_mutex_lock (&line_lock);
    build_locked (line);
    g_object_ref (line->element);
    g_mutex_unlock (&line_lock);
}

typedef struct {
    GstElement *element;
    int task;
} Leaver;

static int leavers;

static gpointer leave (gpointer data)
{
    Leaver *leaver = data;
    own_task = leaver->task;
    begin ("an element to NULL, on another thread");
    gst_element_set_state (leaver->element, GST_STATE_NULL);
    begin ("the last reference to an element, on another thread");
    g_object_unref (leaver->element);
    end_task ();
    g_free (leaver);
    g_atomic_int_add (&leavers, -1);
    return NULL;
}

/* Stops an element on a thread of its own and drops its last reference there. */
static void leave_elsewhere (GstElement *element)
{
    static int last;
    Leaver *leaver = g_new (Leaver, 1);
    last = last >= TASKS - 1 ? 2 : last < 2 ? 2 : last + 1;
    *leaver = (Leaver) { element, last };
    g_atomic_int_inc (&leavers);
    g_thread_unref (g_thread_new ("leaver", leave, leaver));
}

static void remove_pipeline (Line *line)
{
    g_clear_object (&line->audio_pad);
    g_clear_object (&line->preview_pad);
    g_mutex_lock (&line_lock);
    GstElement *element = g_steal_pointer (&line->element);
    g_mutex_unlock (&line_lock);
    g_object_unref (element);
    if (below (3) == 0) {
        leave_elsewhere (g_steal_pointer (&line->pipeline));
        return;
    }
    begin ("the pipeline to NULL, at its end");
    gst_element_set_state (line->pipeline, GST_STATE_NULL);
    begin ("the last reference to the pipeline");
    g_clear_object (&line->pipeline);
}

/* --- Operations -------------------------------------------------------------------------------------------------- */

/* Of an element that leaves a pipeline. After a flush, a sink prerolls again, and a thread of GStreamer then sets all
 * children to PLAYING: also one that has been set to NULL and is not removed yet, unless its state is locked. */
static void stop_child (GstElement *child)
{
    gst_element_set_locked_state (child, TRUE);
    gst_element_set_state (child, GST_STATE_NULL);
}

static void change_state (Line *line)
{
    static const char *const names[] = { "state NULL", "state READY", "state PAUSED", "state PLAYING" };
    int state = below (4);
    begin (names[state]);
    gst_element_set_state (line->pipeline, (GstState) (GST_STATE_NULL + state));
    if (below (2)) {
        g_usleep (below (300000));
        gst_element_set_state (line->pipeline, GST_STATE_PLAYING);
    }
}

static void set_property (Line *line)
{
    static const char *const switches[] = { "mute-video", "mute-audio", "standby", "publish-video", "publish-audio",
                                            "enrich" };
    static const char *const fallbacks[] = { "freeze", "black", "passthrough", "none" };
    static const char *const fits[] = { "crop", "letterbox", "stretch" };
    static const char *const prompts[] = { "lego", "anime", "noir", "cyberpunk", "refuse-me", "" };
    static const char *const mirrors[] = { "on", "off", "auto" };
    static const char *const crops[] = { "", "16:9", "1:1", "10,10,50,50", "9:16" };
    begin ("a property");
    switch (below (8)) {
    case 3:
        set (line, "fallback", ONE_OF (fallbacks));
        break;
    case 4:
        set (line, "fit", ONE_OF (fits));
        break;
    case 5:
        set (line, "prompt", ONE_OF (prompts));
        break;
    case 6:
        if (line->mirror != NULL)
            set_arg (line->mirror, "mode", below (2) ? "on" : "off");
        break;
    case 7:
        if (line->is_source && below (2))
            set (line, "mirror", ONE_OF (mirrors));
        else if (line->is_source)
            set (line, "crop", ONE_OF (crops));
        break;
    default:
        set (line, ONE_OF (switches), below (2) ? "true" : "false");
    }
}

static void read_properties (Line *line)
{
    guint count;
    g_autofree GParamSpec **properties = g_object_class_list_properties (G_OBJECT_GET_CLASS (line->element), &count);
    for (guint i = 0; i < count; i++) {
        begin (properties[i]->name);
        get (G_OBJECT (line->element), properties[i]);
    }
}

static void change_caps (Line *line)
{
    static const char *const formats[] = { "I420", "RGBA", "BGRx", "NV12", "YUY2", "GRAY8", "I420_10LE", "AYUV64",
                                           "RGB", "ARGB", "P010_10LE", "UYVY", "Y444", "v210", "RGB16" };
    static const char *const rates[] = { "25/1", "0/1", "30000/1001", "1/1", "60/1" };
    static const char *const more[] = { "", "", "", ",interlace-mode=interleaved", ",pixel-aspect-ratio=4/3",
                                        ",colorimetry=bt2020", ",colorimetry=bt709", ",multiview-mode=side-by-side",
                                        ",pixel-aspect-ratio=1/7" };
    static const int sizes[] = { 320, 321, 1, 2, 3, 17, 256, 640, 1281 };
    if (line->caps == NULL)
        return;
    g_autofree char *text = g_strdup_printf ("video/x-raw,format=%s,width=%d,height=%d,framerate=%s%s", ONE_OF (formats),
                                  ONE_OF (sizes), below (2) ? 240 : ONE_OF (sizes), ONE_OF (rates), ONE_OF (more));
    begin ("caps");
    set_caps (line, text);
}

static void change_audio (Line *line)
{
    static const char *const sources[] = {
        "audiotestsrc is-live=true ! audioconvert", "audiotestsrc is-live=true ! audio/x-raw,rate=44100,channels=1",
        "audiotestsrc is-live=true ! audioconvert ! audioresample ! opusenc"
    };
    if (url == NULL || (line->is_source && below (2)))
        return;
    if (line->audio == NULL) {
        begin ("a request of an audio pad");
        line->audio_pad = gst_element_request_pad_simple (line->element, line->is_source ? "talkback" : "audio_sink");
        if (line->audio_pad == NULL)
            return;
        line->audio = gst_parse_bin_from_description (ONE_OF (sources), TRUE, NULL);
        gst_bin_add (GST_BIN (line->pipeline), line->audio);
        g_autoptr (GstPad) pad = gst_element_get_static_pad (line->audio, "src");
        gst_pad_link (pad, line->audio_pad);
        gst_element_sync_state_with_parent (line->audio);
        return;
    }
    /* An application may end the source of the pad before or after it, linked or not. */
    int order = below (3);
    g_autoptr (GstPad) pad = gst_element_get_static_pad (line->audio, "src");
    begin ("the release of an audio pad");
    if (order == 0)
        gst_element_release_request_pad (line->element, line->audio_pad);
    if (order == 2)
        gst_pad_unlink (pad, line->audio_pad);
    begin ("the source of an audio pad to NULL");
    stop_child (line->audio);
    begin ("the release of an audio pad whose source is in NULL");
    if (order != 0)
        gst_element_release_request_pad (line->element, line->audio_pad);
    gst_bin_remove (GST_BIN (line->pipeline), line->audio);
    g_clear_object (&line->audio_pad);
    line->audio = NULL;
}

static void change_preview (Line *line)
{
    if (url == NULL || !line->is_source)
        return;
    if (line->preview == NULL) {
        begin ("a request of the preview");
        line->preview_pad = gst_element_request_pad_simple (line->element, "preview");
        if (line->preview_pad == NULL)
            return;
        line->preview = gst_element_factory_make ("fakesink", NULL);
        g_object_set (line->preview, "async", FALSE, "sync", below (2), NULL);
        gst_bin_add (GST_BIN (line->pipeline), line->preview);
        g_autoptr (GstPad) pad = gst_element_get_static_pad (line->preview, "sink");
        gst_pad_link (line->preview_pad, pad);
        gst_element_sync_state_with_parent (line->preview);
        return;
    }
    begin ("the release of the preview");
    if (below (2))
        stop_child (line->preview);
    gst_element_release_request_pad (line->element, line->preview_pad);
    begin ("the sink of the preview to NULL");
    stop_child (line->preview);
    gst_bin_remove (GST_BIN (line->pipeline), line->preview);
    g_clear_object (&line->preview_pad);
    line->preview = NULL;
}

static GstPadProbeReturn blocked (GstPad *pad G_GNUC_UNUSED, GstPadProbeInfo *info G_GNUC_UNUSED, gpointer data)
{
    g_atomic_int_set ((int *) data, 1);
    return GST_PAD_PROBE_OK;
}

/* Takes the element out of the running pipeline, and puts a new one in its place. */
static void replace_element (Line *line)
{
    /* In PAUSED, the streaming thread of an element's source pad may wait behind a sink that has prerolled. */
    if (line->is_source || line->audio != NULL || GST_STATE (line->pipeline) != GST_STATE_PLAYING)
        return;
    g_autoptr (GstPad) before = gst_element_get_static_pad (line->mirror, "src");
    g_autoptr (GstPad) sink = gst_element_get_static_pad (line->element, "sink");
    g_autoptr (GstPad) src = gst_element_get_static_pad (line->element, "src");
    g_autoptr (GstPad) after = gst_pad_get_peer (src);
    g_atomic_int_set (&line->is_blocked, 0);
    begin ("a replacement: block");
    gulong probe = below (2) ? gst_pad_add_probe (before, GST_PAD_PROBE_TYPE_BLOCK_DOWNSTREAM, blocked, &line->is_blocked, NULL)
                             : 0;
    for (int i = 0; probe != 0 && i < 20 && !g_atomic_int_get (&line->is_blocked); i++)
        g_usleep (10000);
    begin ("a replacement: unlink");
    gst_pad_unlink (before, sink);
    if (after != NULL)
        gst_pad_unlink (src, after);
    g_clear_object (&sink);
    g_clear_object (&src);
    if (below (2)) {
        begin ("a replacement: remove, in PLAYING");
        gst_bin_remove (GST_BIN (line->pipeline), line->element);
        leave_elsewhere (g_object_ref (line->element));
    } else {
        begin ("a replacement: NULL");
        stop_child (line->element);
        begin ("a replacement: remove");
        gst_bin_remove (GST_BIN (line->pipeline), line->element);
    }
    g_mutex_lock (&line_lock);
    GstElement *former = line->element;
    make_element (line);
    g_object_ref_sink (line->element);
    g_mutex_unlock (&line_lock);
    begin ("a replacement: the reference to the former element");
    g_object_unref (former);
    begin ("a replacement: add");
    gst_bin_add (GST_BIN (line->pipeline), line->element);
    sink = gst_element_get_static_pad (line->element, "sink");
    src = gst_element_get_static_pad (line->element, "src");
    if (after != NULL)
        gst_pad_link (src, after);
    begin ("a replacement: state");
    gst_element_sync_state_with_parent (line->element);
    gst_pad_link (before, sink);
    if (probe != 0)
        gst_pad_remove_probe (before, probe);
}

/* The element or the queue behind it alone. In PAUSED, the thread of the element may wait behind a sink that has prerolled, also
 * with GStreamer's own elements. */
static void restart_child (Line *line)
{
    GstElement *child = below (3) ? line->element : line->queue;
    if (GST_STATE (line->pipeline) != GST_STATE_PLAYING)
        return;
    begin (child == line->element ? "the element alone down" : "the queue behind alone down");
    gst_element_set_state (child, below (2) ? GST_STATE_READY : GST_STATE_NULL);
    g_usleep (below (200000));
    begin ("one element alone up");
    gst_element_sync_state_with_parent (child);
}

static void flush_branch (Line *line)
{
    g_autoptr (GstPad) sink = gst_element_get_static_pad (line->queue, "sink");
    g_autoptr (GstPad) above = url == NULL || below (2) ? NULL
                               : line->preview_pad != NULL && below (2)
                                   ? gst_object_ref (line->preview_pad)
                                   : gst_element_get_static_pad (line->element, "src");
    begin (above != NULL ? "a flush from downstream" : "a flush of the branch behind");
    /* Behind a flush upstream, flush-stop waits for the pad's task, which may be in a push: this ends it. */
    gst_pad_send_event (sink, gst_event_new_flush_start ());
    if (above != NULL)
        gst_pad_send_event (above, gst_event_new_flush_start ());
    g_usleep (below (30000));
    for (int i = below (2); above != NULL && i >= 0; i--)
        gst_pad_send_event (above, gst_event_new_flush_stop (below (2)));
    gst_pad_send_event (sink, gst_event_new_flush_stop (below (2)));
}

static GstPadProbeReturn hold_up (GstPad *pad G_GNUC_UNUSED, GstPadProbeInfo *info G_GNUC_UNUSED, gpointer data G_GNUC_UNUSED)
{
    return GST_PAD_PROBE_OK;
}

static void block_output (Line *line)
{
    g_autoptr (GstPad) src = gst_element_get_static_pad (line->element, "src");
    begin ("a block of src");
    gulong probe = gst_pad_add_probe (src, GST_PAD_PROBE_TYPE_BLOCK_DOWNSTREAM, hold_up, NULL, NULL);
    g_usleep (below (1000000));
    if (below (3) == 0) {
        begin ("state READY with a blocked src");
        gst_element_set_state (line->pipeline, GST_STATE_READY);
    }
    gst_pad_remove_probe (src, probe);
    begin ("state PLAYING after a block");
    gst_element_set_state (line->pipeline, GST_STATE_PLAYING);
}

static void change_clock (Line *line)
{
    begin ("another clock");
    gst_element_set_state (line->pipeline, GST_STATE_PAUSED);
    if (below (2)) {
        g_autoptr (GstClock) clock = g_object_new (GST_TYPE_SYSTEM_CLOCK, "clock-type", below (2), NULL);
        gst_pipeline_use_clock (GST_PIPELINE (line->pipeline), clock);
    } else {
        gst_pipeline_auto_clock (GST_PIPELINE (line->pipeline));
    }
    gst_element_set_state (line->pipeline, GST_STATE_PLAYING);
}

static void emit_camera_signal (Line *line)
{
    gboolean done = FALSE;
    g_autofree char *name = NULL;
    begin ("an action signal of the camera");
    switch (below (5)) {
    case 0:
        g_signal_emit_by_name (line->element, "switch-camera", &name);
        break;
    case 1:
        g_signal_emit_by_name (line->element, "select-device", "nothing", &done);
        break;
    case 2:
        g_signal_emit_by_name (line->element, "stop-capture");
        break;
    case 3:
        g_signal_emit_by_name (line->element, "start-capture");
        break;
    case 4: {
        g_autoptr (GstStructure) format = gst_structure_from_string ("video/x-raw,width=320,height=240", NULL);
        g_signal_emit_by_name (line->element, "select-format", format, &done);
        break;
    }
    }
}

static void emit_signal (Line *line)
{
    guint64 id = 0;
    if (url == NULL)
        return;
    switch (below (7)) {
    case 2: {
        begin ("set-image");
        /* The begin of a JPEG file, then noise. */
        int size = 100 + below (4000);
        guint8 *image = g_malloc (size);
        for (int i = 0; i < size; i++)
            image[i] = (guint8) below (256);
        memcpy (image, "\xff\xd8\xff\xe0", 4);
        g_autoptr (GBytes) bytes = g_bytes_new_take (image, size);
        g_signal_emit_by_name (line->element, "set-image", below (5) ? bytes : NULL, below (2) ? "hat" : NULL, below (2), &id);
        break;
    }
    case 3:
        begin ("connect");
        g_signal_emit_by_name (line->element, "connect");
        break;
    case 4:
        begin ("disconnect");
        g_signal_emit_by_name (line->element, "disconnect");
        break;
    case 5:
        begin ("extend-session");
        g_signal_emit_by_name (line->element, "extend-session", (guint) below (100));
        break;
    case 6:
        if (line->is_source)
            emit_camera_signal (line);
        break;
    default:
        begin ("set-prompt");
        g_signal_emit_by_name (line->element, "set-prompt", below (5) ? "anime" : "refuse-me", below (2), &id);
    }
}

static void send_event (Line *line)
{
    g_autoptr (GstPad) src = gst_element_get_static_pad (line->element, "src");
    g_autoptr (GstPad) upstream = line->mirror != NULL ? gst_element_get_static_pad (line->mirror, "src") : NULL;
    switch (below (11)) {
    case 0:
        begin ("a flushing seek of the source");
        if (line->source != NULL)
            gst_element_seek (line->source, 1.0, GST_FORMAT_TIME, GST_SEEK_FLAG_FLUSH, GST_SEEK_TYPE_SET,
                              below (5) * GST_SECOND, GST_SEEK_TYPE_NONE, 0);
        break;
    case 1:
        begin ("a seek of the source");
        /* In PAUSED, GStreamer's live sources block such a seek. */
        if (line->source != NULL && line->is_live && GST_STATE (line->source) == GST_STATE_PLAYING)
            gst_element_seek (line->source, below (3) ? 1.0 : 2.0, GST_FORMAT_TIME, GST_SEEK_FLAG_NONE, GST_SEEK_TYPE_SET,
                              below (5) * GST_SECOND, GST_SEEK_TYPE_NONE, 0);
        break;
    case 2:
        begin ("a flushing seek of the pipeline");
        gst_element_seek_simple (line->pipeline, GST_FORMAT_TIME, GST_SEEK_FLAG_FLUSH, below (5) * GST_SECOND);
        break;
    case 3:
        begin ("a flush");
        if (upstream != NULL) {
            g_autoptr (GstPad) mirror_sink = gst_element_get_static_pad (line->mirror, "sink");
            gst_pad_push_event (upstream, gst_event_new_flush_start ());
            if (below (2))
                g_usleep (below (30000));
            /* As in an element that flushes: its streaming thread has returned before flush-stop, or a buffer would follow
             * without a segment. */
            GST_PAD_STREAM_LOCK (mirror_sink);
            g_atomic_int_set (&line->missing_segment, 1);
            gst_pad_push_event (upstream, gst_event_new_flush_stop (below (2)));
            GST_PAD_STREAM_UNLOCK (mirror_sink);
        }
        break;
    case 4:
        begin ("reconfigure");
        gst_pad_send_event (src, gst_event_new_reconfigure ());
        break;
    case 5:
        begin ("force-key-unit");
        gst_pad_send_event (src, gst_video_event_new_upstream_force_key_unit (GST_CLOCK_TIME_NONE, TRUE, 1));
        break;
    case 6:
        begin ("QOS");
        gst_pad_send_event (src, gst_event_new_qos (GST_QOS_TYPE_UNDERFLOW, 0.5, 1000, GST_SECOND));
        break;
    case 7:
        begin ("latency");
        gst_element_send_event (line->pipeline, gst_event_new_latency (below (500) * GST_MSECOND));
        break;
    case 8:
        begin ("a custom event");
        gst_pad_send_event (src, gst_event_new_custom (GST_EVENT_CUSTOM_UPSTREAM, gst_structure_new_empty ("y")));
        break;
    case 9:
        begin ("navigation");
        gst_pad_send_event (src, gst_event_new_navigation (gst_structure_new (
                                     "application/x-gst-navigation", "event", G_TYPE_STRING, "mouse-move", "pointer_x",
                                     G_TYPE_DOUBLE, 3.0, "pointer_y", G_TYPE_DOUBLE, 5.0, NULL)));
        break;
    case 10:
        begin ("a pad offset");
        gst_pad_set_offset (below (2) && upstream != NULL ? upstream : src, (below (3) - 1) * (gint64) GST_SECOND);
        break;
    }
}

static GstQuery *make_query (GstCaps *caps, gboolean asks_allocation)
{
    /* Before its caps, videotestsrc fails an assertion for bytes and frames; check_field.py asks for those. */
    static const GstFormat formats[] = { GST_FORMAT_TIME, GST_FORMAT_PERCENT };
    switch (below (10)) {
    case 1:
        return gst_query_new_position (ONE_OF (formats));
    case 2:
        return gst_query_new_duration (GST_FORMAT_TIME);
    case 3:
        return gst_query_new_caps (below (2) ? caps : NULL);
    case 4:
        return gst_query_new_accept_caps (caps);
    case 5:
        return asks_allocation ? gst_query_new_allocation (caps, below (2)) : gst_query_new_latency ();
    case 6:
        return gst_query_new_seeking (GST_FORMAT_TIME);
    case 7:
        return gst_query_new_scheduling ();
    case 8:
        return gst_query_new_context ("gst.gl.GLDisplay");
    case 9:
        return gst_query_new_segment (GST_FORMAT_TIME);
    default:
        return gst_query_new_latency ();
    }
}

static void query (Line *line)
{
    g_autoptr (GstPad) src = gst_element_get_static_pad (line->element, "src");
    g_autoptr (GstPad) sink = line->is_source ? NULL : gst_element_get_static_pad (line->element, "sink");
    g_autoptr (GstCaps) caps = gst_caps_from_string ("video/x-raw,format=I420,width=7,height=9");
    /* Upstream's query waits for the streaming thread, which waits at a prerolled sink, and for a session if the input is
     * not live. */
    g_autoptr (GstQuery) made =
        make_query (caps, sink != NULL && line->is_live && GST_STATE (line->pipeline) == GST_STATE_PLAYING);
    gboolean goes_to_sink = sink != NULL && (GST_QUERY_TYPE (made) == GST_QUERY_ALLOCATION || below (2));
    if (GST_QUERY_TYPE (made) == GST_QUERY_SCHEDULING)
        goes_to_sink = FALSE;
    begin (GST_QUERY_TYPE_NAME (made));
    if (below (2))
        gst_pad_query (goes_to_sink ? sink : src, made);
    else
        gst_pad_peer_query (goes_to_sink ? sink : src, made);
}

static void operate (Line *line)
{
    int kind = below (100);
    operations++;
    if (kind < 3) {
        change_state (line);
    } else if (kind < 12) {
        begin ("state PLAYING");
        gst_element_set_state (line->pipeline, GST_STATE_PLAYING);
    } else if (kind < 30) {
        set_property (line);
    } else if (kind < 34) {
        change_caps (line);
    } else if (kind < 52) {
        send_event (line);
    } else if (kind < 60) {
        query (line);
    } else if (kind < 70) {
        emit_signal (line);
    } else if (kind < 76) {
        change_audio (line);
    } else if (kind < 80) {
        change_preview (line);
    } else if (kind < 84) {
        read_properties (line);
    } else if (kind < 89) {
        g_atomic_int_set (&line->injection, 1 + below (15));
    } else if (kind < 90) {
        restart_child (line);
    } else if (kind < 91) {
        flush_branch (line);
    } else if (kind < 92) {
        block_output (line);
    } else if (kind < 93) {
        change_clock (line);
    } else if (kind < 94) {
        replace_element (line);
    } else if (kind < 95) {
        begin ("EOS");
        /* As with a seek, and in sources that are not live too. */
        if (GST_STATE (line->pipeline) == GST_STATE_PLAYING)
            gst_element_send_event (line->pipeline, gst_event_new_eos ());
        g_usleep (below (500000));
    } else if (kind < 97) {
        remove_pipeline (line);
        build (line);
        restarts++;
        begin ("state PLAYING of a new pipeline");
        gst_element_set_state (line->pipeline, GST_STATE_PLAYING);
    } else {
        begin ("nothing");
        g_usleep (below (1500000));
    }
    g_usleep (below (120000));
}

/* Starts a pipeline again that has an error, such as caps that do not fit, or that has ended. */
static void restart_if_ended (Line *line)
{
    g_autoptr (GstBus) bus = gst_element_get_bus (line->pipeline);
    gboolean has_ended = FALSE;
    GstMessage *message;
    begin ("the bus");
    while ((message = gst_bus_pop (bus)) != NULL) {
        has_ended |= (GST_MESSAGE_TYPE (message) & (GST_MESSAGE_ERROR | GST_MESSAGE_EOS)) != 0;
        gst_message_unref (message);
    }
    if (!has_ended)
        return;
    begin ("state NULL after an end");
    gst_element_set_state (line->pipeline, GST_STATE_NULL);
    if (line->caps != NULL)
        set_caps (line, "video/x-raw,width=320,height=240,framerate=25/1");
    begin ("state PLAYING after an end");
    gst_element_set_state (line->pipeline, GST_STATE_PLAYING);
    restarts++;
}

/* Another thread of the application, which reads and sets what may be read and set on any thread. */
static gpointer work_beside (gpointer data)
{
    gint64 end = *(gint64 *) data;
    own_task = 1;
    for (guint count = 0; g_get_monotonic_time () < end; count++) {
        own_seed = seed * 7919 + count;
        Line copy = { .is_source = below (2) };
        g_mutex_lock (&line_lock);
        copy.element = lines[copy.is_source].element;
        if (copy.element != NULL)
            g_object_ref (copy.element);
        g_mutex_unlock (&line_lock);
        if (copy.element == NULL)
            continue;
        switch (below (4)) {
        case 0:
            read_properties (&copy);
            break;
        case 1:
            emit_signal (&copy);
            break;
        default:
            set_property (&copy);
        }
        begin ("the reference of the other thread");
        g_object_unref (copy.element);
        g_usleep (below (120000));
    }
    end_task ();
    return NULL;
}

static int entries (const char *path)
{
    int count = 0;
    DIR *folder = opendir (path);
    while (folder != NULL && readdir (folder) != NULL)
        count++;
    if (folder != NULL)
        closedir (folder);
    return count - 2;
}

int main (int argc, char **argv)
{
    gst_init (&argc, &argv);
    setvbuf (stdout, NULL, _IOLBF, 0);
    if (argc != 4) {
        fprintf (stderr, "usage: random_operations SECONDS SEED URL|own\n");
        return 2;
    }
    started = g_get_monotonic_time ();
    gint64 end = started + atoi (argv[1]) * G_USEC_PER_SEC;
    seed = own_seed = (guint) atoi (argv[2]);
    url = strcmp (argv[3], "own") == 0 ? NULL : argv[3];
    g_thread_unref (g_thread_new ("watchdog", watch, NULL));
    for (int i = 0; i < 2; i++) {
        build (&lines[i]);
        begin ("the first state PLAYING");
        gst_element_set_state (lines[i].pipeline, GST_STATE_PLAYING);
    }
    GThread *other = g_thread_new ("beside", work_beside, &end);
    while (g_get_monotonic_time () < end) {
        own_seed = seed * 104729 + (guint) operations;
        Line *line = &lines[below (2)];
        operate (line);
        restart_if_ended (line);
    }
    begin ("the end of the other thread");
    g_thread_join (other);
    for (int i = 0; i < 2; i++)
        remove_pipeline (&lines[i]);
    begin ("the ends of what leaves on other threads");
    while (g_atomic_int_get (&leavers) > 0)
        g_usleep (10000);
    begin ("the last threads");
    int threads = 0, descriptors = 0;
    for (int i = 0; i < 300; i++) {
        threads = entries ("/proc/self/task");
        descriptors = entries ("/proc/self/fd");
        if (threads <= MOST_THREADS && descriptors <= MOST_DESCRIPTORS)
            break;
        g_usleep (100000);
    }
    printf ("%d operations, %d restarts, %d threads, %d descriptors\n", operations, restarts, threads, descriptors);
    return threads > MOST_THREADS || descriptors > MOST_DESCRIPTORS;
}
