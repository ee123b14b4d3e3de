package batch

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// While the quota of a batch's owner is used up, batches of others go on, and it is taken up again later.
func TestAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, first := open(t, quota, line("a", `{}`), line("b", `{}`))
		second := beginOf(t, s, "other", line("c", `{}`))
		var mu sync.Mutex
		left := 1 // requests that the quota has, of the first batch
		var order []string
		r := Runner{Store: s, Width: 1, Log: func(_ string, err error) { t.Error(err) }, Do: func(_ context.Context, _, _ string, _ []byte) Answer {
			mu.Lock()
			defer mu.Unlock()
			if id := nextOf(s); id == first.ID && left == 0 && !endedOf(t, s, "other", second.ID) && len(order) < 2 {
				order = append(order, "over")
				return Answer{Status: http.StatusTooManyRequests, Over: true, Retry: time.Hour}
			}
			left--
			order = append(order, "done")
			return Answer{Status: http.StatusOK, Body: []byte(`{}`)}
		}}
		ctx, cancel := context.WithCancel(t.Context())
		begun := time.Now()
		done := make(chan struct{})
		go func() { defer close(done); r.Run(ctx) }()
		time.Sleep(time.Second)
		if !endedOf(t, s, "other", second.ID) || ended(t, s, first.ID) {
			t.Errorf("the second has ended: %v, the first: %v, %v", endedOf(t, s, "other", second.ID), ended(t, s, first.ID), order)
		}
		for !ended(t, s, first.ID) {
			time.Sleep(time.Second)
		}
		if took := time.Since(begun); took < asideMost || took > asideMost+2*time.Second {
			t.Errorf("it was set aside for %v", took)
		}
		b, err := s.Batch("me", first.ID)
		if err != nil || b.Counts != (Counts{2, 2, 0}) {
			t.Errorf("%+v %v", b, err)
		}
		cancel()
		<-done
	})
}

// A batch that is set aside can be cancelled at once.
func TestCancelAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := open(t, quota, line("a", `{}`))
		r := Runner{Store: s, Width: 1, Log: func(_ string, err error) { t.Error(err) }, Do: func(ctx context.Context, _, _ string, _ []byte) Answer {
			return Answer{Status: http.StatusTooManyRequests, Over: true, Retry: time.Hour}
		}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); r.Run(ctx) }()
		time.Sleep(time.Second)
		if _, err := s.Cancel("me", b.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if b, err := s.Batch("me", b.ID); err != nil || b.Status != "cancelled" {
			t.Errorf("%+v %v", b, err)
		}
		cancel()
		<-done
	})
}

// An owner is set aside with all batches, whose files are not read meanwhile: for half a minute at least, and for as long as Wait says
// so. A batch that expires meanwhile ends.
func TestOwnerAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, first := open(t, quota, line("a", `{}`))
		second := begin(t, s, line("b", `{}`))
		var times []time.Duration
		var mu sync.Mutex // of gone and times
		gone := false
		begun := time.Now()
		r := Runner{Store: s, Width: 1, Log: func(_ string, err error) { t.Error(err) },
			Wait: func(owner string) time.Duration {
				if owner != "me" {
					t.Errorf("asked of %q", owner)
				}
				mu.Lock()
				defer mu.Unlock()
				if gone {
					return time.Hour
				}
				return 0
			},
			Do: func(ctx context.Context, _, _ string, _ []byte) Answer {
				mu.Lock()
				defer mu.Unlock()
				times = append(times, time.Since(begun).Truncate(time.Second))
				gone = len(times) == 2
				return Answer{Status: http.StatusTooManyRequests, Over: true, Retry: time.Second}
			}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); r.Run(ctx) }()
		time.Sleep(time.Hour)
		mu.Lock()
		if len(times) != 2 || times[1] != asideLeast {
			t.Errorf("sent at %v", times)
		}
		mu.Unlock()
		time.Sleep(24 * time.Hour)
		for _, id := range []string{first.ID, second.ID} {
			if b, err := s.Batch("me", id); err != nil || b.Status != "expired" {
				t.Errorf("%+v %v", b, err)
			}
		}
		cancel()
		<-done
	})
}

func ended(t *testing.T, s *Store, id string) bool {
	t.Helper()
	return endedOf(t, s, "me", id)
}

func endedOf(t *testing.T, s *Store, owner, id string) bool {
	t.Helper()
	b, err := s.Batch(owner, id)
	if err != nil {
		t.Fatal(err)
	}
	return b.ended()
}
