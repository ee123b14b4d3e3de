package oidc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/quern-llm/quern/go/internal/newfile"
)

// When the keys of an issuer are asked for. Whoever sends tokens of keys that do not exist can have them asked for
// again, at most every retryEvery.
const (
	refreshEvery = 15 * time.Minute // where tokens come: a key that the issuer withdrew is trusted at most so long
	retryEvery   = 10 * time.Second // for a key that is not known, or after a failure
	keptFor      = 24 * time.Hour   // keys are used so long after they were last seen at an issuer that cannot be reached
	fetchTime    = 10 * time.Second
	failureFor   = time.Minute // after a failure the keys that there are judge so long without waiting
)

// A source is the keys of an issuer.
type source struct {
	issuer Issuer
	client *http.Client
	file   string // of the cache; empty: none
	ctx    context.Context
	clock  func() time.Time
	log    Log

	mu     sync.Mutex
	set    []key
	good   time.Time     // when the set was at the issuer
	tried  time.Time     // when it was last asked for
	flight chan struct{} // closed when the request for it that runs has ended; nil: none runs
	failed error         // of the last one
	since  time.Time     // when that ended; zero: it did not fail
}

// A Log is told what became of the keys of an issuer, in words for a log: err is nil where they can be had again.
type Log func(issuer, what string, err error)

// What a Log is told.
const (
	stay     = "the keys of an issuer of tokens stay as they were"
	ofCache  = "the keys of an issuer of tokens are those of the cache"
	notSaved = "the keys of an issuer of tokens cannot be written to the cache"
	back     = "the keys of an issuer of tokens can be had again"
)

// find returns the keys that may have signed a token. It asks the issuer for its keys where they are old or none has that
// name, and waits for that until ctx ends. Old ones judge only where they could not be had: then, for a while, nothing waits.
func (s *source) find(ctx context.Context, id, algorithm string) ([]key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	if now.Sub(s.good) > refreshEvery {
		s.ask(now)
		if now.Sub(s.since) > failureFor && !s.wait(ctx) {
			return nil, errOld
		}
	}
	found, err := s.look(s.clock(), id, algorithm)
	if len(found) > 0 || err != nil && !errors.Is(err, errOld) {
		return found, err
	}
	s.ask(now)
	s.wait(ctx)
	return s.look(s.clock(), id, algorithm)
}

// wait waits for the request that runs, if one does; false: ctx ended before. s.mu is held before and after, not meanwhile.
func (s *source) wait(ctx context.Context) bool {
	done := s.flight
	if done == nil || ctx.Err() != nil {
		return done == nil
	}
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// errOld is of keys that the issuer has not confirmed for too long.
var errOld = errors.New("the keys of the token's issuer cannot be had")

// look returns the keys of the set. s.mu is held.
func (s *source) look(now time.Time, id, algorithm string) ([]key, error) {
	if now.Sub(s.good) > keptFor {
		return nil, errOld
	}
	return choose(s.set, id, algorithm)
}

// ask begins a request for the keys, unless one runs or the last one began a moment ago. s.mu is held.
func (s *source) ask(now time.Time) {
	if s.flight != nil || now.Sub(s.tried).Abs() < retryEvery {
		return
	}
	done := make(chan struct{})
	s.flight, s.tried = done, now
	go func() {
		set, data, err := s.fetch(s.ctx)
		s.mu.Lock()
		before := s.failed
		s.take(set, err)
		s.flight = nil
		s.mu.Unlock()
		close(done)
		if err == nil {
			if err := s.save(data); err != nil {
				s.log(s.issuer.URL, notSaved, err)
			}
		}
		switch {
		case s.ctx.Err() != nil:
		case err == nil && before != nil:
			s.log(s.issuer.URL, back, nil)
		case err != nil && (before == nil || err.Error() != before.Error()):
			s.log(s.issuer.URL, stay, err)
		}
	}()
}

// take has a set be the keys, unless it could not be had. s.mu is held.
func (s *source) take(set []key, err error) {
	now := s.clock()
	if s.failed = err; err != nil {
		s.since = now
		return
	}
	s.set, s.good, s.since = set, now, time.Time{}
}

// open asks for the keys for the first time. old reports that they are those of the cache, since the issuer could not be
// asked: the error says why.
func (s *source) open(ctx context.Context) (old bool, err error) {
	s.tried = s.clock()
	set, data, err := s.fetch(ctx)
	if err == nil {
		s.take(set, nil)
		return false, s.save(data)
	}
	s.take(nil, err)
	if s.file == "" {
		return false, err
	}
	info, kept := os.Stat(s.file)
	if kept != nil {
		return false, err
	}
	if data, kept = readFile(s.file); kept == nil {
		set, kept = parseSet(data)
	}
	if age := s.clock().Sub(info.ModTime()); kept != nil || age > keptFor || age < -time.Minute {
		return false, err
	}
	s.set, s.good = set, info.ModTime()
	return true, err
}

// save writes the keys to the cache.
func (s *source) save(data []byte) error {
	if s.file == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(s.file), 0o700); err != nil {
		return err
	}
	_, err := newfile.Write(s.file, true, 0o600, 0, func(w io.Writer) (int64, error) {
		n, err := w.Write(data)
		return int64(n), err
	})
	return err
}

// cacheFile returns the file of an issuer in the cache.
func cacheFile(dir, issuer string) string {
	if dir == "" {
		return ""
	}
	h := sha256.Sum256([]byte(issuer))
	return filepath.Join(dir, hex.EncodeToString(h[:16])+".jwks.json")
}

// fetch returns the keys of the issuer, and as what they came.
func (s *source) fetch(ctx context.Context) (set []key, data []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	at := s.issuer.Keys
	if at == "" {
		if at, err = s.discover(ctx); err != nil {
			return nil, nil, err
		}
	}
	if isURL(at) {
		data, err = s.get(ctx, at)
	} else {
		data, err = readFile(at)
	}
	if err != nil {
		return nil, nil, err
	}
	if set, err = parseSet(data); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", at, err)
	}
	return set, data, nil
}

// discover returns the URL of the keys in the issuer's discovery document (OpenID Connect Discovery 1.0).
func (s *source) discover(ctx context.Context) (string, error) {
	at := strings.TrimSuffix(s.issuer.URL, "/") + "/.well-known/openid-configuration"
	data, err := s.get(ctx, at)
	if err != nil {
		return "", err
	}
	var document struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(data, &document); err != nil {
		return "", fmt.Errorf("%s: no discovery document: %w", at, err)
	}
	if document.Issuer != s.issuer.URL {
		return "", fmt.Errorf("%s: it is of the issuer %q, want %q", at, document.Issuer, s.issuer.URL)
	}
	if err := checkURL(document.Keys); err != nil {
		return "", fmt.Errorf("%s: jwks_uri: %w", at, err)
	}
	if isHTTPS(at) && !isHTTPS(document.Keys) {
		return "", fmt.Errorf("%s: jwks_uri is %q, %w", at, document.Keys, errClear)
	}
	return document.Keys, nil
}

// get returns what is at a URL.
func (s *source) get(ctx context.Context, at string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	answer, err := s.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", at, answer.Status)
	}
	return readAll(at, answer.Body)
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(path, f)
}

func readAll(at string, from io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(from, maxSet+1))
	if err == nil && len(data) > maxSet {
		err = fmt.Errorf("%s has more than %d KiB", at, maxSet>>10)
	}
	return data, err
}

// maxRedirects is how many redirects are followed.
const maxRedirects = 3

// newClient returns the client of all issuers. Proxies come from the environment.
func newClient() *http.Client {
	return &http.Client{CheckRedirect: func(next *http.Request, before []*http.Request) error {
		if len(before) > maxRedirects {
			return fmt.Errorf("%d redirects", len(before))
		}
		if before[len(before)-1].URL.Scheme == "https" && next.URL.Scheme != "https" {
			return errClear
		}
		return checkSecure(next.URL)
	}}
}

// errClear is of a URL without HTTPS that one with it names, be it on this machine: whoever listens there has proved nothing.
var errClear = errors.New("want https, as what names it came over https")

func isHTTPS(at string) bool { return strings.HasPrefix(strings.ToLower(at), "https://") }
