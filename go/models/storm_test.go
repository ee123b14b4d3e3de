package models

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// Storms of requests, cancellations, loads and unloads leave no lease and no byte.
func TestStorm(t *testing.T) {
	m := &machine{limit: 25}
	var specs []Spec[string]
	for i := range 5 {
		specs = append(specs, m.spec(fmt.Sprint(i), uint64(6+i), 50*time.Microsecond))
		specs[i].Elsewhere = i%2 == 1
	}
	s := newSet(t, Config{Memory: m, KeepAlive: 3 * time.Millisecond, Sleep: time.Millisecond, Most: 3}, specs...)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for range 150 {
				name := fmt.Sprint(r.IntN(5))
				switch r.IntN(12) {
				case 0:
					_ = s.Unload(name)
				case 1:
					_ = s.Load(name)
				case 2:
					s.Shed(uint64(r.IntN(10)))
				default:
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(3000))*time.Microsecond)
					if l, err := s.Acquire(ctx, name, Options{}); err == nil {
						time.Sleep(time.Duration(r.IntN(200)) * time.Microsecond)
						if *l.Model != name {
							t.Errorf("%s in place of %s", *l.Model, name)
						}
						l.Release()
					} else if !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
					cancel()
				}
			}
		})
	}
	wg.Wait()
	for _, st := range s.List() {
		if st.Leases != 0 || st.Waiting != 0 {
			t.Errorf("%+v", st)
		}
	}
	s.Close(t.Context(), func(Instance[string]) {})
	if m.used != 0 || m.most > m.limit {
		t.Errorf("%d bytes are left, %d of %d were taken", m.used, m.most, m.limit)
	}
	if _, err := s.Acquire(t.Context(), "1", Options{}); err != ErrClosed {
		t.Errorf("after the end: %v", err)
	}
}
