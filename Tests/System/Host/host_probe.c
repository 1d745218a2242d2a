/* A host application that compares its own state before and after it has loaded the plugin.
 *
 *   host_probe load PLUGIN.so       checks how loading and creating elements change the process
 *   host_probe session PLUGIN.so URL
 *                                   checks how a session with the service at URL changes the signals
 *
 * Prints "ok NAME" or "not ok NAME: why". The program knows only the plugin's file. */
#include <dirent.h>
#include <gst/gst.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Seconds. It only guards against a hang. */
enum { CHILD_LIMIT = 60 };

static gboolean failed = FALSE;

G_GNUC_PRINTF (3, 4)
static void report (gboolean good, const char *name, const char *format, ...)
{
    if (good) {
        printf ("ok %s\n", name);
    } else {
        va_list arguments;
        va_start (arguments, format);
        g_autofree char *why = g_strdup_vprintf (format, arguments);
        va_end (arguments);
        printf ("not ok %s: %s\n", name, why);
        failed = TRUE;
    }
    fflush (stdout);
}

/* --- State of the process ---------------------------------------------------------------------------------------- */

typedef struct {
    char *signals; /* the lines SigBlk, SigIgn, SigCgt */
    int threads;
    char *files; /* the target of each open descriptor */
} Snapshot;

static int by_text (gconstpointer one, gconstpointer other)
{
    return strcmp (*(char *const *) one, *(char *const *) other);
}

static char *open_files (void)
{
    g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
    DIR *folder = opendir ("/proc/self/fd");
    const struct dirent *entry;
    while (folder != NULL && (entry = readdir (folder)) != NULL) {
        g_autofree char *path = g_build_filename ("/proc/self/fd", entry->d_name, NULL);
        g_autofree char *target = g_file_read_link (path, NULL);
        if (target != NULL && !g_str_has_prefix (target, "/proc/"))
            g_ptr_array_add (names, g_strdup_printf ("%s=%s", entry->d_name, target));
    }
    if (folder != NULL)
        closedir (folder);
    g_ptr_array_sort (names, by_text);
    g_ptr_array_add (names, NULL);
    return g_strjoinv (" ", (char **) names->pdata);
}

static Snapshot take_snapshot (void)
{
    Snapshot now = { NULL, 0, open_files () };
    GString *signals = g_string_new (NULL);
    g_autofree char *status = NULL;
    if (g_file_get_contents ("/proc/self/status", &status, NULL, NULL)) {
        g_auto (GStrv) lines = g_strsplit (status, "\n", -1);
        for (char **line = lines; *line != NULL; line++) {
            if (g_str_has_prefix (*line, "SigBlk") || g_str_has_prefix (*line, "SigIgn") ||
                g_str_has_prefix (*line, "SigCgt"))
                /* Signals 32 and 33 belong to glibc's threads. */
                g_string_append_printf (signals, "%.6s: %016" G_GINT64_MODIFIER "x ", *line,
                    g_ascii_strtoull (*line + 7, NULL, 16) & ~((guint64) 3 << 31));
            else if (g_str_has_prefix (*line, "Threads:"))
                now.threads = atoi (*line + 8);
        }
    }
    now.signals = g_string_free (signals, FALSE);
    return now;
}

static void release (Snapshot *snapshot)
{
    g_free (snapshot->signals);
    g_free (snapshot->files);
}

static void compare_signals (const Snapshot *before, const Snapshot *after, const char *when)
{
    g_autofree char *name = g_strdup_printf ("host: signals unchanged by %s", when);
    report (strcmp (before->signals, after->signals) == 0, name, "%s-> %s", before->signals, after->signals);
}

static void compare (const Snapshot *before, const char *when)
{
    Snapshot after = take_snapshot ();
    /* A thread or a descriptor that is about to end may do so. */
    for (int wait = 0; wait < 300 && (after.threads > before->threads || strcmp (before->files, after.files) != 0); wait++) {
        g_usleep (100000);
        release (&after);
        after = take_snapshot ();
    }
    compare_signals (before, &after, when);
    g_autofree char *threads = g_strdup_printf ("host: no thread started by %s", when);
    /* Fewer, if one of GStreamer's own has ended. */
    report (after.threads <= before->threads, threads, "%d -> %d", before->threads, after.threads);
    g_autofree char *files = g_strdup_printf ("host: no file opened by %s", when);
    report (strcmp (before->files, after.files) == 0, files, "%s -> %s", before->files, after.files);
    release (&after);
}

/* --- The plugin -------------------------------------------------------------------------------------------------- */

static GstPlugin *load (const char *path)
{
    g_autoptr (GError) error = NULL;
    GstPlugin *plugin = gst_plugin_load_file (path, &error);
    report (plugin != NULL, "host: the plugin loads", "%s", error != NULL ? error->message : "no reason given");
    return plugin;
}

/* Returns the names of the plugin's elements; free with g_strfreev. */
static char **elements_of (GstPlugin *plugin)
{
    GPtrArray *names = g_ptr_array_new ();
    GList *features = gst_registry_get_feature_list_by_plugin (gst_registry_get (), gst_plugin_get_name (plugin));
    for (GList *each = features; each != NULL; each = each->next)
        if (GST_IS_ELEMENT_FACTORY (each->data))
            g_ptr_array_add (names, g_strdup (gst_plugin_feature_get_name (each->data)));
    gst_plugin_feature_list_free (features);
    g_ptr_array_add (names, NULL);
    return (char **) g_ptr_array_free (names, FALSE);
}

/* A host may fork, and the child may go on using GStreamer. */
static void check_fork (void)
{
    fflush (stdout);
    pid_t child = fork ();
    if (child == 0) {
        alarm (CHILD_LIMIT);
        GstElement *pipeline = gst_parse_launch ("videotestsrc num-buffers=5 ! fakesink", NULL);
        gst_element_set_state (pipeline, GST_STATE_PLAYING);
        GstBus *bus = gst_element_get_bus (pipeline);
        GstMessage *message = gst_bus_timed_pop_filtered (bus, CHILD_LIMIT * GST_SECOND,
                                                          GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
        _exit (message != NULL && GST_MESSAGE_TYPE (message) == GST_MESSAGE_EOS ? 0 : 1);
    }
    int status = -1;
    if (child > 0)
        waitpid (child, &status, 0);
    report (child > 0 && WIFEXITED (status) && WEXITSTATUS (status) == 0, "host: a forked child runs a pipeline",
            "status 0x%x", (unsigned) status);
}

static void check_load (const char *path)
{
    Snapshot before = take_snapshot ();
    g_autoptr (GstPlugin) plugin = load (path);
    if (plugin == NULL)
        return;
    compare (&before, "loading the plugin");
    report (strcmp (gst_plugin_get_license (plugin), "Apache 2.0") == 0, "host: the licence is Apache 2.0", "%s",
            gst_plugin_get_license (plugin));
    check_fork ();
    g_auto (GStrv) names = elements_of (plugin);
    report (names[0] != NULL, "host: the plugin has elements", "none");
    for (char **name = names; *name != NULL; name++) {
        GstElement *element = gst_element_factory_make (*name, NULL);
        g_autofree char *what = g_strdup_printf ("host: %s can be created", *name);
        report (element != NULL, what, "gst_element_factory_make gave NULL");
        if (element != NULL)
            gst_object_unref (gst_object_ref_sink (element));
    }
    if (names[0] != NULL)
        compare (&before, "creating its elements");
    release (&before);
}

/* GLib ignores SIGPIPE in the whole process when they make their first socket. */
static void check_session (const char *path, const char *url)
{
    g_autoptr (GstPlugin) plugin = load (path);
    if (plugin == NULL)
        return;
    g_autofree char *line = g_strdup_printf ("videotestsrc is-live=true ! video/x-raw,width=320,height=176,framerate=25/1 ! "
                                  "decarttransform name=element base-url=%s api-key=x width=320 height=176 ! fakesink",
                                  url);
    g_autoptr (GstElement) pipeline = gst_parse_launch (line, NULL);
    g_autoptr (GstElement) element = pipeline != NULL ? gst_bin_get_by_name (GST_BIN (pipeline), "element") : NULL;
    report (element != NULL, "host: a pipeline with a session", "it cannot be made");
    if (element == NULL)
        return;
    Snapshot before = take_snapshot ();
    gboolean connected = FALSE;
    gst_element_set_state (pipeline, GST_STATE_PLAYING);
    for (int wait = 0; wait < 600 && !connected; wait++) {
        g_usleep (100000);
        gint state = 0;
        g_object_get (element, "connection-state", &state, NULL);
        connected = state == 2 || state == 3; /* connected, generating */
    }
    report (connected, "host: a session connects", "not within a minute");
    Snapshot after = take_snapshot ();
    compare_signals (&before, &after, "a session");
    gst_element_set_state (pipeline, GST_STATE_NULL);
    release (&before);
    release (&after);
}

int main (int count, char **arguments)
{
    gst_init (&count, &arguments);
    if (count < 3) {
        fprintf (stderr, "usage: host_probe load PLUGIN.so, or session PLUGIN.so URL\n");
        return 2;
    }
    if (count == 4)
        check_session (arguments[2], arguments[3]);
    else
        check_load (arguments[2]);
    /* The leak tracer reports what is still alive here. */
    gst_deinit ();
    return failed ? 1 : 0;
}
