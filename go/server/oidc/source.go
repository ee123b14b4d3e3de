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
}

// A Log is told what becomes of the keys of issuers: err is nil where they can be had again.
type Log func(issuer string, err error)

// find returns the keys that may have signed a token. It asks the issuer for its keys where none has that name, and
// waits for that; where they are only old, it does not wait.
func (s *source) find(ctx context.Context, id, algorithm string) ([]key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	if now.Sub(s.good) > refreshEvery {
		s.ask(now)
	}
	found, err := s.look(now, id, algorithm)
	if len(found) > 0 || err != nil && !errors.Is(err, errOld) {
		return found, err
	}
	s.ask(now)
	if done := s.flight; done != nil {
		s.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
		}
		s.mu.Lock()
		found, err = s.look(s.clock(), id, algorithm)
	}
	return found, err
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
				s.log(s.issuer.URL, fmt.Errorf("the cache cannot be written: %w", err))
			}
		}
		if s.ctx.Err() == nil && ((err == nil) != (before == nil) || err != nil && err.Error() != before.Error()) {
			s.log(s.issuer.URL, err)
		}
	}()
}

// take has a set be the keys, unless it could not be had. s.mu is held.
func (s *source) take(set []key, err error) {
	if s.failed = err; err == nil {
		s.set, s.good = set, s.clock()
	}
}

// open asks for the keys for the first time. old reports that they are those of the cache, since the issuer could not be asked:
// the error says why.
func (s *source) open(ctx context.Context) (old bool, err error) {
	s.tried = s.clock()
	set, data, err := s.fetch(ctx)
	if err == nil {
		s.take(set, nil)
		return false, s.save(data)
	}
	s.failed = err
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
		return checkSecure(next.URL)
	}}
}
