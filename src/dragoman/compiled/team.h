// A team of threads that share the loops of one decoder.
//
// A loop never waits for a helper that has not started, and waiting threads yield, so other work on the machine slows a
// loop down only little. OpenMP's threads follow environment variables that are read when it is loaded: by default they
// spin for milliseconds, and a loop waits for all of them.

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

namespace {

// Minimum number of multiplications in a loop that is worth waking a helper for.
constexpr int64_t WORTH_SHARING = 1 << 15;

class Team {
    static constexpr int PATIENCE = 100;  // polls for a new loop, about 50 microseconds, before a helper sleeps

    // State shared by helpers and the caller. Helpers keep it alive, so that closing a decoder need not wait for them.
    struct Shared {
        std::atomic<uint64_t> turn{0};  // odd while a loop is open
        std::atomic<int64_t> next{0};
        std::atomic<int> inside{0}, asleep{0};
        std::atomic<bool> over{false};
        std::mutex mutex;
        std::condition_variable wake;
        // The open loop. Only threads that are counted in `inside` may read it.
        const void *work;
        void (*call)(const void *work, int64_t i, int member);
        int64_t count, grain;
        int members;

        void take_part(int member) noexcept {
            for (int64_t first; (first = next.fetch_add(grain)) < count;)
                for (int64_t i = first; i < first + grain && i < count; ++i) call(work, i, member);
        }
    };

    std::shared_ptr<Shared> shared = std::make_shared<Shared>();
    int helpers = 0;

    static void help(std::shared_ptr<Shared> with, int member) {
        uint64_t served = 0, now = 0;
        auto awaited = [&] { return (now = with->turn) % 2 ? now != served : with->over.load(); };
        while (true) {
            for (int i = 0; i < PATIENCE && !awaited(); ++i) std::this_thread::yield();
            if (!awaited()) {
                std::unique_lock<std::mutex> lock(with->mutex);
                ++with->asleep;
                with->wake.wait(lock, awaited);
                --with->asleep;
            }
            if (with->over) return;
            ++with->inside;
            if (with->turn == now && member < with->members) with->take_part(member);
            --with->inside;
            served = now;
        }
    }

    // Starts missing helpers. If the system grants no more threads, fewer are used.
    void hire() {
        try {
            for (; helpers < threads - 1; ++helpers) std::thread(help, shared, helpers + 1).detach();
        } catch (const std::system_error &) {
            threads = helpers + 1;
        }
    }

    void rouse() {
        if (!shared->asleep) return;
        std::lock_guard<std::mutex> lock(shared->mutex);
        shared->wake.notify_all();
    }

  public:
    int threads;

    explicit Team(int threads_) : threads(threads_) {}
    Team(const Team &) = delete;
    ~Team() {
        shared->over = true;
        rouse();
    }

    // Calls `work(i, member)` for each i below `count`, in chunks of `grain`; `member` is below `threads`. Only `large`
    // work is shared. It must not throw.
    template <class Work> void share(int64_t count, int64_t grain, bool large, const Work &work) {
        if (threads == 1 || !large || count <= grain) {
            for (int64_t i = 0; i < count; ++i) work(i, 0);
            return;
        }
        hire();
        shared->work = &work, shared->count = count, shared->grain = grain, shared->members = threads;
        shared->call = [](const void *of, int64_t i, int member) { (*static_cast<const Work *>(of))(i, member); };
        shared->next = 0;
        ++shared->turn;  // opens the loop; the fields above are written before
        rouse();
        shared->take_part(0);
        ++shared->turn;  // closes it: a late helper finds no work
        while (shared->inside) std::this_thread::yield();
    }
};

}  // namespace
