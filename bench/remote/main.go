// Command remote measures how long a model takes to load from a server of limited speed, beside the network alone and packing
// alone: go run ./bench/remote -m FILE -rates 100,400,1000.
package main

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quern-llm/quern/go/hub"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
)

// A limit is how many bytes a second all connections of a server send together.
type limit struct {
	mu   sync.Mutex
	rate float64   // bytes a second; 0: as many as there are
	free time.Time // when what was sent so far has been sent
}

func (l *limit) set(rate float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rate, l.free = rate, time.Now()
}

// pass waits until n more bytes may have been sent.
func (l *limit) pass(n int) {
	l.mu.Lock()
	if l.rate == 0 {
		l.mu.Unlock()
		return
	}
	if now := time.Now(); l.free.Before(now) {
		l.free = now
	}
	l.free = l.free.Add(time.Duration(float64(n) / l.rate * float64(time.Second)))
	wait := time.Until(l.free)
	l.mu.Unlock()
	if wait > time.Millisecond {
		time.Sleep(wait)
	}
}

type limited struct {
	http.ResponseWriter
	limit *limit
}

func (w limited) Write(b []byte) (int, error) {
	w.limit.pass(len(b))
	return w.ResponseWriter.Write(b)
}

func main() {
	path := flag.String("m", "", "GGUF file")
	rates := flag.String("rates", "100,400,1000,0", "MB/s, 0 is no limit")
	runs := flag.Int("r", 3, "runs, of which the fastest counts")
	threads := flag.Int("t", 2, "threads")
	sum := flag.Bool("sum", false, "the SHA-256 of the file is known, and compared")
	flag.Parse()
	if err := run(*path, *rates, *runs, *threads, *sum); err != nil {
		log.Fatal(err)
	}
}

func run(path, rates string, runs, threads int, sum bool) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	l := &limit{}
	files := http.FileServer(http.Dir(filepath.Dir(path)))
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { files.ServeHTTP(limited{w, l}, r) }))
	dir, err := os.MkdirTemp("", "remote")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	h, err := hub.New(hub.Config{Dir: dir, Agent: "bench"})
	if err != nil {
		return err
	}
	known := ""
	if sum {
		if known, err = hashed(path); err != nil {
			return err
		}
	}
	ref, err := hub.ParseRef("http://" + listener.Addr().String() + "/" + filepath.Base(path) + known)
	if err != nil {
		return err
	}
	plan, err := h.Resolve(context.Background(), ref)
	if err != nil {
		return err
	}
	remotes, err := h.Remotes(context.Background(), plan)
	if err != nil {
		return err
	}
	sources := make([]model.Source, len(remotes))
	for i, r := range remotes {
		sources[i] = r
	}
	pool, err := kernel.NewPool(threads, nil)
	if err != nil {
		return err
	}
	defer pool.Close()
	load := func(open func() (*model.File, error)) func() error {
		return func() error {
			f, err := open()
			if err != nil {
				return err
			}
			defer f.Close()
			s, err := model.NewSurvey(f, kernel.KVTypes{K: kernel.KVI16, V: kernel.KVI16}, 0)
			if err != nil {
				return err
			}
			m, err := s.Load(model.Options{Pack: pool.PackInto, Budget: mem.NewBudget(1<<40, "a benchmark"), Residency: model.Packed})
			if err == nil {
				m.Close()
			}
			return err
		}
	}
	here := load(func() (*model.File, error) { return model.OpenFile(path) })
	far := load(func() (*model.File, error) { return model.OpenRemote(context.Background(), "far", sources) })
	network := func() error { return download(sources) }
	fmt.Println("| MB/s | network, s | packing, s | load, s | load / the slower |")
	fmt.Println("| ---: | ---: | ---: | ---: | ---: |")
	for _, rate := range strings.Split(rates, ",") {
		v, err := strconv.ParseFloat(rate, 64)
		if err != nil {
			return err
		}
		l.set(v * 1e6)
		var took [3]time.Duration
		for range runs { // in turns: others work on the machine
			for i, do := range []func() error{network, here, far} {
				start := time.Now()
				if err := do(); err != nil {
					return err
				}
				if d := time.Since(start); took[i] == 0 || d < took[i] {
					took[i] = d
				}
			}
		}
		fmt.Printf("| %s | %.2f | %.2f | %.2f | %.2f |\n", rate, took[0].Seconds(), took[1].Seconds(), took[2].Seconds(),
			took[2].Seconds()/max(took[0], took[1]).Seconds())
	}
	return nil
}

// hashed returns the end of an address that says what hash the file has.
func hashed(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return fmt.Sprintf("#sha256=%x", h.Sum(nil)), err
}

// download reads files as a load does, and does nothing with them.
func download(sources []model.Source) error {
	const piece = 8 << 20
	group, ctx := errgroup.WithContext(context.Background())
	group.SetLimit(8)
	for _, s := range sources {
		buffers := sync.Pool{New: func() any { return new([piece]byte) }}
		for at := int64(0); at < s.Size(); at += piece {
			group.Go(func() error {
				b := buffers.Get().(*[piece]byte)
				defer buffers.Put(b)
				return s.Fetch(ctx, b[:min(piece, s.Size()-at)], at)
			})
		}
	}
	return group.Wait()
}
