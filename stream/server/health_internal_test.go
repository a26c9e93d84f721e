package server

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// While the check hangs with the disk, its callers get the last result, and an error after hungTimeout.
func TestHealth_HangingCheckBlocksNoCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hang chan struct{}
		var result error
		var checks atomic.Int32
		h := health{check: func() error {
			checks.Add(1)
			if hang != nil {
				<-hang
			}
			return result
		}}
		if err := h.recentResult(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(healthCacheTime)
		hang = make(chan struct{})
		began := time.Now()
		if err := h.recentResult(); err != nil || time.Since(began) > healthTimeout {
			t.Errorf("%v after %v, want the last result after %v", err, time.Since(began), healthTimeout)
		}
		for _, ask := range []func() error{h.freshResult, h.recentResult} {
			if err := ask(); err == nil || !strings.Contains(err.Error(), "has not answered for ") {
				t.Errorf("a check that hangs: %v", err)
			}
		}
		if time.Since(began) > 2*hungTimeout || checks.Load() != 2 {
			t.Errorf("%d checks, %v", checks.Load(), time.Since(began))
		}

		failed := errors.New("write error")
		result = failed
		close(hang)
		synctest.Wait()
		for _, ask := range []func() error{h.recentResult, h.freshResult} {
			if err := ask(); !errors.Is(err, failed) {
				t.Errorf("the check that follows: %v", err)
			}
		}
	})
}

// Results are cached for healthCacheTime; fresh starts another check.
func TestHealth_ResultHoldsForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var checks atomic.Int32
		h := health{check: func() error { checks.Add(1); return nil }}
		for _, want := range []int32{1, 1} {
			if err := h.recentResult(); err != nil || checks.Load() != want {
				t.Errorf("%v after %d checks, want %d", err, checks.Load(), want)
			}
		}
		time.Sleep(time.Millisecond)
		if err := h.freshResult(); err != nil || checks.Load() != 2 {
			t.Errorf("%v after %d checks, want 2", err, checks.Load())
		}
		time.Sleep(healthCacheTime + time.Millisecond)
		if err := h.recentResult(); err != nil || checks.Load() != 3 {
			t.Errorf("%v after %d checks, want 3", err, checks.Load())
		}
	})
}
