// The threads of one job. They belong to the library, so that the waiting thread can be interrupted, and none of them
// outlives the data that it uses.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "checks.h"

namespace headwise {

// Return the message of the exception that is being handled; `text` stores a message that isn't a constant.
inline const char* reason(std::string& text) {
    try {
        throw;
    } catch (const Refused& refused) {
        text = refused.what();
        return text.c_str();
    } catch (const std::bad_alloc&) {
        return "there is not enough memory";
    } catch (const std::length_error&) {  // a size that exceeds any memory
        return "there is not enough memory";
    } catch (const std::system_error&) {
        return "no more threads can be started";
    }
}

class Workers {
  public:
    // `mutex` protects the state of the threads; `ended` is notified when the last one ends.
    Workers(std::mutex& mutex, std::condition_variable& ended) : mutex_(mutex), ended_(ended) {}
    Workers(const Workers&) = delete;
    ~Workers() { join(); }

    // Run work() in `count` threads; a thread that throws calls failed(), and the first exception's message is stored.
    template <class Work, class Failed>
    void start(int count, const Work& work, const Failed& failed) {
        threads_.reserve(count);
        for (int number = 0; number < count; ++number) {
            {
                const std::lock_guard<std::mutex> lock(mutex_);
                ++running_;
            }
            try {
                threads_.emplace_back([this, work, failed] {
                    std::string text;
                    const char* found = nullptr;
                    try {
                        work();
                    } catch (...) {
                        found = reason(text);
                        failed();
                    }
                    end(found, text);
                });
            } catch (...) {
                failed();
                end(nullptr, {});
                throw;
            }
        }
    }

    // Wait until all threads have ended.
    void join() {
        for (std::thread& thread : threads_) thread.join();
        threads_.clear();
    }

    // Whether no thread runs; the caller holds the mutex.
    bool ended() const { return !running_; }

    // Return the message of the first failed thread, null if none failed; valid after all have ended.
    const char* failure() const { return failure_; }

  private:
    void end(const char* failure, const std::string& text) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (failure && !failure_) {
            text_ = text;
            failure_ = failure == text.c_str() ? text_.c_str() : failure;
        }
        if (!--running_) ended_.notify_all();
    }

    std::mutex& mutex_;
    std::condition_variable& ended_;
    int running_ = 0;
    const char* failure_ = nullptr;
    std::string text_;
    std::vector<std::thread> threads_;
};

}  // namespace headwise
