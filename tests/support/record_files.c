/* Records what a process does to the files below $RECORD_FOLDER, for tests of power loss.

   Preloaded with LD_PRELOAD. Each operation is done and appended to $RECORD_LOG under one lock, so that the log
   has the operations of all threads and processes in the order in which they happened. A record is a line
   "KIND OFFSET LENGTH NAME" followed by LENGTH bytes. The shared-memory index of SQLite is left out: it means
   nothing after a power loss.

   $RECORD_KILL_AT=n ends the process with SIGKILL instead of its n-th sync of a file.
   $RECORD_FAIL names a file; while it is there and holds "fsync", syncs fail with EIO, with "full", writes
   fail with ENOSPC. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int log_fd = -1;
static long syncs = 0;

static void begin(void) {
    pthread_mutex_lock(&lock);
    if (log_fd < 0 && getenv("RECORD_LOG"))
        log_fd = (int)REAL(open)(getenv("RECORD_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log_fd >= 0) flock(log_fd, LOCK_EX);
}

static void end(void) {
    int kept = errno;
    if (log_fd >= 0) flock(log_fd, LOCK_UN);
    pthread_mutex_unlock(&lock);
    errno = kept;
}

/* The part of a path below the folder, NULL if it is elsewhere. "." is the folder itself. */
static const char *below(const char *path) {
    const char *folder = getenv("RECORD_FOLDER");
    size_t size = folder ? strlen(folder) : 0;
    if (!size || !path || strncmp(path, folder, size)) return NULL;
    if (path[size] == 0) return ".";
    if (path[size] != '/' || strstr(path, "-shm")) return NULL;
    return path + size + 1;
}

static const char *name_of(int fd, char *buffer) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, buffer, PATH_MAX - 1);
    if (size < 0) return NULL;
    buffer[size] = 0;
    return below(buffer);
}

static void record(const char *kind, long long offset, const void *data, size_t size, const char *name) {
    char head[PATH_MAX + 64];
    int length = snprintf(head, sizeof head, "%s %lld %zu %s\n", kind, offset, size, name);
    int kept = errno;
    if (log_fd >= 0 && (REAL(write)(log_fd, head, length) != length ||
                        (size && REAL(write)(log_fd, data, size) != (ssize_t)size)))
        abort();
    errno = kept;
}

static int fails(const char *how) {
    char told[16] = {0};
    int fd = getenv("RECORD_FAIL") ? REAL(open)(getenv("RECORD_FAIL"), O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return 0;
    ssize_t size = read(fd, told, sizeof told - 1);
    close(fd);
    return size > 0 && !strncmp(told, how, strlen(how));
}

static int open_recorded(int (*real)(const char *, int, ...), const char *path, int flags, mode_t mode) {
    char whole[PATH_MAX];
    const char *name = NULL;
    if (flags & (O_CREAT | O_TRUNC)) {
        if (path[0] == '/') snprintf(whole, sizeof whole, "%s", path);
        else if (getcwd(whole, sizeof whole - strlen(path) - 2)) strcat(strcat(whole, "/"), path);
        name = below(whole);
    }
    if (!name) return real(path, flags, mode);
    begin();
    int there = access(path, F_OK) == 0;
    int fd = real(path, flags, mode);
    if (fd >= 0 && !there) record("create", 0, NULL, 0, name);
    if (fd >= 0 && there && (flags & O_TRUNC)) record("truncate", 0, NULL, 0, name);
    end();
    return fd;
}

#define OPEN(function)                                                            \
    int function(const char *path, int flags, ...) {                              \
        va_list more;                                                             \
        va_start(more, flags);                                                    \
        mode_t mode = (flags & O_CREAT) ? va_arg(more, mode_t) : 0;               \
        va_end(more);                                                             \
        return open_recorded(REAL(function), path, flags, mode);                  \
    }
OPEN(open)
OPEN(open64)

static ssize_t write_recorded(ssize_t done, const void *data, off_t at, const char *name) {
    if (done > 0) record("write", at, data, done, name);
    return done;
}

#define PWRITE(function)                                                          \
    ssize_t function(int fd, const void *data, size_t size, off_t at) {           \
        char buffer[PATH_MAX];                                                    \
        const char *name = name_of(fd, buffer);                                   \
        if (!name) return REAL(function)(fd, data, size, at);                     \
        if (fails("full")) return errno = ENOSPC, -1;                             \
        begin();                                                                  \
        ssize_t done = write_recorded(REAL(function)(fd, data, size, at), data, at, name); \
        end();                                                                    \
        return done;                                                              \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

ssize_t write(int fd, const void *data, size_t size) {
    char buffer[PATH_MAX];
    const char *name = name_of(fd, buffer);
    if (!name) return REAL(write)(fd, data, size);
    if (fails("full")) return errno = ENOSPC, -1;
    begin();
    ssize_t done = REAL(write)(fd, data, size);
    write_recorded(done, data, lseek(fd, 0, SEEK_CUR) - (done > 0 ? done : 0), name);
    end();
    return done;
}

#define TRUNCATE(function)                                                        \
    int function(int fd, off_t size) {                                            \
        char buffer[PATH_MAX];                                                    \
        const char *name = name_of(fd, buffer);                                   \
        if (!name) return REAL(function)(fd, size);                               \
        begin();                                                                  \
        int done = REAL(function)(fd, size);                                      \
        if (!done) record("truncate", size, NULL, 0, name);                       \
        end();                                                                    \
        return done;                                                              \
    }
TRUNCATE(ftruncate)
TRUNCATE(ftruncate64)

#define SYNC(function)                                                            \
    int function(int fd) {                                                        \
        char buffer[PATH_MAX];                                                    \
        const char *name = name_of(fd, buffer);                                   \
        if (!name) return REAL(function)(fd);                                     \
        if (fails("fsync")) return errno = EIO, -1;                               \
        begin();                                                                  \
        if (getenv("RECORD_KILL_AT") && strcmp(name, ".") && ++syncs == atol(getenv("RECORD_KILL_AT"))) \
            kill(getpid(), SIGKILL), pause();                                     \
        int done = REAL(function)(fd);                                            \
        if (!done) record("sync", 0, NULL, 0, name);                              \
        end();                                                                    \
        return done;                                                              \
    }
SYNC(fsync)
SYNC(fdatasync)

int unlink(const char *path) {
    const char *name = below(path);
    if (!name) return REAL(unlink)(path);
    begin();
    int done = REAL(unlink)(path);
    if (!done) record("unlink", 0, NULL, 0, name);
    end();
    return done;
}

int rename(const char *from, const char *to) {
    const char *name = below(to);
    if (!name && !below(from)) return REAL(rename)(from, to);
    if (name && !strncmp(name, "models/", 7)) return REAL(rename)(from, to); /* kept models: no events */
    abort(); /* the store renames nothing; a test that does must teach the replay what it means */
}

/* A line of the test itself: what was acknowledged stands in the log where it happened. */
void record_mark(const char *text) {
    begin();
    record("mark", 0, NULL, 0, text);
    end();
}
