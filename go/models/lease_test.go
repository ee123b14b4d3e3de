package models

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
)

// Those who wait for a model are of many flows, if there are: the newest of the flow with the most gives its place away.
func TestWaitingIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{limit: 100}
		s := New[string](Config{Queue: 4})
		spec := m.spec("a", 1, 0)
		load, begin := spec.Load, make(chan struct{})
		spec.Load = func(ctx context.Context, told func(float64)) (Instance[string], error) {
			<-begin
			return load(ctx, told)
		}
		if err := s.Add(spec); err != nil {
			t.Fatal(err)
		}
		got := map[string]chan error{}
		wait := func(flow string, n int) {
			name := fmt.Sprint(flow, n)
			got[name] = make(chan error, 1)
			go func() {
				l, err := s.Acquire(t.Context(), "a", Options{Flow: flow})
				if err == nil {
					l.Release()
				}
				got[name] <- err
			}()
			synctest.Wait()
		}
		for i := range 6 {
			wait("many", i)
		}
		for i := range 3 {
			wait("few", i)
		}
		wait("one", 0)
		if st, err := s.Status("a"); err != nil || st.Waiting != 4 {
			t.Errorf("%d wait, %v", st.Waiting, err)
		}
		close(begin)
		synctest.Wait()
		for name, want := range map[string]bool{
			"many0": true, "many1": false, "many2": false, "many3": false, "many4": false, "many5": false,
			"few0": true, "few1": true, "few2": false, "one0": true,
		} {
			err := <-got[name]
			if busy := (*BusyError)(nil); want != (err == nil) || !want && !errors.As(err, &busy) {
				t.Errorf("%s: %v, want a lease: %v", name, err, want)
			}
		}
	})
}
