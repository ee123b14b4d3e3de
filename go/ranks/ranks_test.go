package ranks

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A joined is what came of joining.
type joined struct {
	g   *Group
	err error
}

func config(token string) Config {
	return Config{Version: "1", Token: []byte(token), Open: func([]string) ([]byte, error) {
		address := make([]byte, 8)
		_, err := rand.Read(address)
		return address, err
	}}
}

// begin does something that returns a group, in the background.
func begin(do func() (*Group, error)) chan joined {
	done := make(chan joined, 1)
	go func() {
		g, err := do()
		done <- joined{g, err}
	}()
	return done
}

// free returns an address that nothing listens at.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// group checks that all have joined, and returns them by their ranks.
func group(t *testing.T, all ...chan joined) []*Group {
	t.Helper()
	groups := make([]*Group, len(all))
	for _, c := range all {
		var j joined
		select {
		case j = <-c:
		case <-time.After(30 * time.Second):
			t.Fatal("it does not join")
		}
		if j.err != nil {
			t.Fatal(j.err)
		}
		if j.g.Count() != len(all) || groups[j.g.Rank] != nil {
			t.Fatalf("rank %d of %d, twice or not of %d", j.g.Rank, j.g.Count(), len(all))
		}
		groups[j.g.Rank] = j.g
		t.Cleanup(j.g.Close)
	}
	for _, g := range groups[1:] {
		if !slices.EqualFunc(g.Addresses, groups[0].Addresses, slices.Equal) {
			t.Errorf("rank %d has other addresses", g.Rank)
		}
		if len(g.Near) != len(all) || slices.Contains(g.Near, false) {
			t.Errorf("rank %d is near to %v", g.Rank, g.Near)
		}
	}
	return groups
}

// Ranks that wait for rank 0 and ranks that it waits for have the same addresses, in an order of rank 0's.
func TestJoining(t *testing.T) {
	t.Parallel()
	ctx, c := t.Context(), config("secret")
	at := []string{free(t), free(t)}
	lead := begin(func() (*Group, error) { return Dial(ctx, c, at) }) // before anybody is there
	b := begin(func() (*Group, error) { return Wait(ctx, c, at[1]) })
	a := begin(func() (*Group, error) { return Wait(ctx, c, at[0]) })
	all := group(t, lead, a, b)

	door := free(t)
	a = begin(func() (*Group, error) { return Join(ctx, c, door) })
	b = begin(func() (*Group, error) { return Join(ctx, c, door) })
	lead = begin(func() (*Group, error) { return Gather(ctx, c, door, 2) })
	group(t, lead, a, b)

	// A rank that is asked to end tells rank 0; one that ends in order is not lost, one that ends otherwise is.
	leaving, lost := make(chan int, 9), make(chan error, 9)
	all[0].Watch(func(err error) { lost <- err }, func(rank int) { leaving <- rank }, nil)
	all[1].Leave()
	if rank := <-leaving; rank != 1 {
		t.Errorf("rank %d is asked to end, want 1", rank)
	}
	all[1].Close()
	select {
	case err := <-lost:
		t.Errorf("one that ended in order: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	all[2].lines[0].conn.Close()
	if err := <-lost; !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "rank 2") {
		t.Errorf("lost: %v", err)
	}
}

// Who ends with an error says so to the others, whose line it is in.
func TestFailing(t *testing.T) {
	t.Parallel()
	ctx, c, at := t.Context(), config(""), free(t)
	all := group(t, begin(func() (*Group, error) { return Dial(ctx, c, []string{at}) }), begin(func() (*Group, error) { return Wait(ctx, c, at) }))
	lost := make(chan error, 9)
	all[0].Watch(func(err error) { lost <- err }, nil, nil)
	all[1].Fail(errors.New("the file is\ndamaged"))
	all[1].lines[0].conn.Close()
	if err := <-lost; !strings.Contains(err.Error(), "rank 1") || !strings.Contains(err.Error(), "damaged") || strings.Contains(err.Error(), "\n") {
		t.Errorf("lost: %v", err)
	}
}

// What does not belong together does not join, in one line each that says why.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		lead, follow Config
		words        string
	}{
		{"token", config("one"), config("two"), "--rank-token-file"},
		{"no token", config("one"), config(""), "--rank-token-file"},
		{"version", config(""), func() Config { c := config(""); c.Version = "2"; return c }(), `version "2"`},
		{"transport", config(""), func() Config {
			c := config("")
			c.Open = func([]string) ([]byte, error) { return nil, errors.New("no devices here") }
			return c
		}(), "no devices here"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			at := free(t)
			follow := begin(func() (*Group, error) { return Wait(ctx, c.follow, at) })
			_, err := Dial(ctx, c.lead, []string{at})
			if err == nil || !strings.Contains(err.Error(), c.words) || strings.Contains(err.Error(), "\n") {
				t.Errorf("rank 0: %v", err)
			}
			cancel()
			if j := <-follow; j.err == nil {
				t.Error("the other has joined")
			}
		})
	}
	t.Run("two rank 0", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		at := free(t)
		other := begin(func() (*Group, error) { return Gather(ctx, config(""), at, 1) })
		if _, err := Dial(ctx, config(""), []string{at}); err == nil || !strings.Contains(err.Error(), "rank 0 as well") {
			t.Errorf("got %v", err)
		}
		cancel()
		<-other
	})
}

// Who sends anything, or nothing, keeps nobody from joining, and is turned away with few lines.
func TestStrangers(t *testing.T) {
	t.Parallel()
	c := config("secret")
	var mu sync.Mutex
	var notes []string
	c.Note = func(line string) { mu.Lock(); notes = append(notes, line); mu.Unlock() }
	at, start := free(t), time.Now()
	follow := begin(func() (*Group, error) { return Wait(t.Context(), c, at) })
	noise := make([]byte, 1<<14)
	_, _ = rand.Read(noise)
	for i := range 200 {
		var conn net.Conn
		for deadline := time.Now().Add(time.Minute); conn == nil && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			conn, _ = net.Dial("tcp", at)
		}
		if conn == nil {
			t.Fatal("nobody listens")
		}
		t.Cleanup(func() { conn.Close() })
		switch i % 4 {
		case 0:
			_, _ = conn.Write(noise)
		case 1:
			_, _ = io.WriteString(conn, magic+"0"+strings.Repeat("n", nonceSize)+strings.Repeat("p", 32))
		case 2:
			_, _ = io.WriteString(conn, magic)
			conn.Close()
		}
	}
	group(t, follow, begin(func() (*Group, error) { return Dial(t.Context(), c, []string{at}) }))
	mu.Lock()
	defer mu.Unlock()
	if most := 5 + int(time.Since(start)/time.Second); len(notes) > most { // one a second, and who is waited for
		t.Errorf("%d lines about strangers, want %d at most", len(notes), most)
	}
	if !slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, "turned away") }) {
		t.Errorf("no line about strangers: %q", notes)
	}
}

// Connections that say nothing, as many as there may be and more, new ones for those that are closed, keep nobody out.
func TestSilentStrangers(t *testing.T) {
	t.Parallel()
	c, at := config("secret"), free(t)
	follow := begin(func() (*Group, error) { return Wait(t.Context(), c, at) })
	ctx, cancel := context.WithCancel(t.Context())
	var silent sync.WaitGroup
	defer silent.Wait()
	defer cancel()
	var there sync.WaitGroup
	for range 200 {
		there.Add(1)
		silent.Go(func() {
			first := sync.OnceFunc(there.Done)
			defer first()
			for pause(ctx, 200*time.Millisecond) == nil {
				conn, err := net.Dial("tcp", at)
				if err != nil {
					continue
				}
				first()
				stop := context.AfterFunc(ctx, func() { conn.Close() })
				_, _ = io.Copy(io.Discard, conn)
				stop()
				conn.Close()
			}
		})
	}
	there.Wait()
	group(t, follow, begin(func() (*Group, error) { return Dial(t.Context(), c, []string{at}) }))
}

// Who is no rank gets no answer.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	a, b := net.Pipe()
	defer b.Close()
	c := config("secret")
	done := make(chan error, 1)
	go func() {
		err := c.prove(a, roleFollow, false)
		a.Close()
		done <- err
	}()
	_, _ = io.WriteString(b, strings.Repeat("GET / HTTP/1.1\r\n", 4)[:len(magic)+1+nonceSize])
	if answer, _ := io.ReadAll(b); len(answer) > 0 {
		t.Errorf("it answers %q", answer)
	}
	if err := <-done; err == nil || !strings.Contains(err.Error(), "no rank") {
		t.Errorf("got %v", err)
	}
}

// Where rank 0 goes before all have come, a rank waits for another.
func TestRankZeroAgain(t *testing.T) {
	t.Parallel()
	c := config("")
	notes := make(chan string, 100)
	c.Note = func(line string) { notes <- line }
	at, missing := free(t), free(t)
	follow := begin(func() (*Group, error) { return Wait(t.Context(), c, at) })
	for gone := false; !gone; { // it may go before it has joined the one that is there
		first, cancel := context.WithTimeout(t.Context(), time.Second)
		if _, err := Dial(first, config(""), []string{at, missing}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("without one: %v", err)
		}
		cancel()
		for len(notes) > 0 {
			note := <-notes // in any case, or this has no end
			gone = gone || strings.Contains(note, "has gone before all had joined")
		}
	}
	group(t, follow, begin(func() (*Group, error) { return Dial(t.Context(), config(""), []string{at}) }))
}

// Where a rank goes before all have joined, rank 0 joins again.
func TestFollowerAgain(t *testing.T) {
	t.Parallel()
	c, at := config(""), free(t)
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	lead := begin(func() (*Group, error) { return Dial(t.Context(), c, []string{at}) })
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.prove(conn, roleFollow, false); err != nil {
		t.Fatal(err)
	}
	l.Close()
	conn.Close()
	group(t, lead, begin(func() (*Group, error) { return Wait(t.Context(), c, at) }))
}

// What rank 0's end in order is for the others; who does not watch for losses any more hears of none.
func TestOver(t *testing.T) {
	t.Parallel()
	ctx, c, at := t.Context(), config(""), []string{free(t), free(t)}
	all := group(t, begin(func() (*Group, error) { return Dial(ctx, c, at) }),
		begin(func() (*Group, error) { return Wait(ctx, c, at[0]) }), begin(func() (*Group, error) { return Wait(ctx, c, at[1]) }))
	lost, over := make(chan error, 9), make(chan int, 9)
	for _, g := range all {
		g.Watch(func(err error) { lost <- err }, nil, func() { over <- g.Rank })
	}
	all[0].Unwatch()
	all[1].lines[0].close(nil) // of which rank 1 itself hears
	if err := <-lost; !strings.Contains(err.Error(), "rank 0") {
		t.Errorf("lost: %v", err)
	}
	all[0].Close()
	if rank := <-over; rank != 2 {
		t.Errorf("over for rank %d, want 2", rank)
	}
	select {
	case err := <-lost:
		t.Errorf("lost: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
}

// A rank that says nothing is lost within seconds, though its connection is there.
func TestSilence(t *testing.T) {
	t.Parallel()
	a, b := net.Pipe()
	defer b.Close()
	go io.Copy(io.Discard, b)
	l := newLine(a)
	start := time.Now()
	_, _, err := l.next(t.Context())
	if took := time.Since(start); !errors.Is(err, ErrLost) || took < silence {
		t.Errorf("%v after %v", err, took)
	}
}

// What a rank sends is bounded.
func TestLongFrame(t *testing.T) {
	t.Parallel()
	a, b := net.Pipe()
	defer b.Close()
	l := newLine(a)
	go fmt.Fprintf(b, "R\xff\xff\xff\xff")
	if _, _, err := l.next(t.Context()); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "at most") {
		t.Errorf("got %v", err)
	}
}

// The adapter for RDMA behind an interface is found.
func TestAdapters(t *testing.T) {
	sys := t.TempDir()
	if err := os.MkdirAll(filepath.Join(sys, "eth1/device/infiniband/mlx5_3"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(sys, "eth1/dev_port"), []byte("1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := adapters(sys, "eth1"); !slices.Equal(got, []string{"mlx5_3:2"}) {
		t.Errorf("got %q", got)
	}
	if got := adapters(sys, "eth0"); got != nil {
		t.Errorf("got %q of an interface without", got)
	}
}
