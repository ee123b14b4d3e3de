package oidc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
)

// A Kind says what is wrong with a token.
type Kind int

const (
	Invalid     Kind = iota // it proves nothing
	Forbidden               // it proves who somebody is, who may nothing here
	Unavailable             // it cannot be verified now
)

// An Error is why a token was refused, in printable ASCII without quotes. It tells nothing of the token but names of claims.
type Error struct {
	Kind   Kind
	Reason string
}

func (e *Error) Error() string { return e.Reason }

// A Subject is whose token was verified.
type Subject struct {
	URL    string   // of its issuer
	Issuer string   // the name of that in the file
	ID     string   // of 1 to 255 bytes, as the token has it
	Tenant string   // letters, digits and . _ -; empty: none
	Words  []string // after a key with the same rights, sorted
}

// maxToken is the most bytes of a token.
const maxToken = 16 << 10

// A Verifier verifies tokens. Its methods are safe for concurrent use.
type Verifier struct {
	leeway  time.Duration
	clock   func() time.Time
	sources map[string]*source // by the claim iss
	end     context.CancelFunc
}

// Open asks all issuers for their keys. Where one cannot be asked, the keys that it had within a day are used if there is a cache,
// and log is told; else that is an error. Close ends requests that run.
func Open(ctx context.Context, c Config, log Log) (*Verifier, error) {
	return open(ctx, c, log, time.Now)
}

func open(ctx context.Context, c Config, log Log, clock func() time.Time) (*Verifier, error) {
	v := &Verifier{leeway: c.leeway(), clock: clock, sources: map[string]*source{}}
	var running context.Context
	running, v.end = context.WithCancel(context.Background())
	client := newClient()
	errs := make([]error, len(c.Issuers))
	var all sync.WaitGroup
	for i, one := range c.Issuers {
		s := &source{issuer: one, client: client, file: cacheFile(c.Cache, one.URL), ctx: running, clock: clock, log: log}
		v.sources[one.URL] = s
		all.Go(func() {
			old, err := s.open(ctx)
			switch {
			case old:
				log(one.URL, ofCache, err)
			case err != nil:
				errs[i] = fmt.Errorf("issuer %q: %w", one.URL, err)
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		v.Close()
		return nil, err
	}
	return v, nil
}

// Close ends requests for keys that run.
func (v *Verifier) Close() { v.end() }

// Like reports whether a text has the form of a token: three parts with dots between them.
func Like(text string) bool { return strings.Count(text, ".") == 2 }

// The reasons before a signature is verified say nothing of what would be accepted.
var (
	errForm    = refused("it is no signed token of at most %d KiB", maxToken>>10)
	errUnknown = refused("it is not signed by an issuer that this server accepts")
)

// registered are the claims of RFC 7519 that are looked at.
type registered struct {
	Issuer    string   `json:"iss"`
	Audience  audience `json:"aud"`
	Expires   *float64 `json:"exp"` // seconds since 1970
	NotBefore *float64 `json:"nbf"`
}

// An audience is a text or a list of texts.
type audience []string

func (a *audience) UnmarshalJSON(data []byte) error {
	all, ok := texts(data)
	if !ok {
		return errForm
	}
	*a = all
	return nil
}

// Check verifies a token: its form, its issuer, its signature, its times, its audience, and then what its claims grant. It may wait for
// an issuer, until ctx ends or for fetchTime. The error is an *Error.
func (v *Verifier) Check(ctx context.Context, token string) (*Subject, error) {
	if len(token) > maxToken {
		return nil, errForm
	}
	signed, err := jose.ParseSignedCompact(token, anyAlgorithm)
	if err != nil {
		if unexpected := (*jose.ErrUnexpectedSignatureAlgorithm)(nil); errors.As(err, &unexpected) {
			return nil, errUnknown
		}
		return nil, errForm
	}
	var who struct {
		Issuer string `json:"iss"`
	}
	if json.Unmarshal(signed.UnsafePayloadWithoutVerification(), &who) != nil {
		return nil, errForm
	}
	s := v.sources[who.Issuer] // whose keys decide whether that is true
	if s == nil {
		return nil, errUnknown
	}
	payload, err := s.verify(ctx, signed)
	if err != nil {
		return nil, err
	}
	return v.subject(&s.issuer, payload)
}

// anyAlgorithm is what a token may be signed by; its issuer may have fewer.
var anyAlgorithm = (&Issuer{Algorithms: algorithms}).signatures()

// verify returns the payload of a token that a key of the issuer has signed.
func (s *source) verify(ctx context.Context, signed *jose.JSONWebSignature) ([]byte, error) {
	header := signed.Signatures[0].Protected
	if !slices.Contains(s.issuer.Algorithms, header.Algorithm) || len(header.KeyID) > maxKeyID {
		return nil, errUnknown
	}
	found, err := s.find(ctx, header.KeyID, header.Algorithm)
	switch {
	case errors.Is(err, errOld):
		return nil, &Error{Kind: Unavailable, Reason: err.Error()}
	case err != nil:
		return nil, refused("%v", err)
	}
	for _, k := range found {
		if payload, err := signed.Verify(k.public); err == nil {
			return payload, nil
		}
	}
	return nil, errUnknown
}

// subject returns whose token it is, by a payload that was verified.
func (v *Verifier) subject(i *Issuer, payload []byte) (*Subject, error) {
	var r registered
	c := claims{}
	if json.Unmarshal(payload, &r) != nil || json.Unmarshal(payload, &c) != nil {
		return nil, refused("one of the claims iss, aud, exp and nbf has a wrong type")
	}
	now, leeway := float64(v.clock().UnixMilli())/1000, v.leeway.Seconds()
	switch {
	case r.Expires == nil:
		return nil, refused("the token has no time at which it expires")
	case *r.Expires+leeway <= now:
		return nil, refused("the token has expired")
	case r.NotBefore != nil && *r.NotBefore-leeway > now:
		return nil, refused("the token is not valid yet")
	case !slices.ContainsFunc(r.Audience, func(a string) bool { return slices.Contains(i.Audiences, a) }):
		return nil, refused("the token is for another audience")
	}
	return i.subject(c)
}

// subject returns whose token it is, by its claims.
func (i *Issuer) subject(c claims) (_ *Subject, err error) {
	s := &Subject{URL: i.URL, Issuer: i.Name}
	name := i.Claims[toSubject]
	if name == "" {
		name = "sub"
	}
	if s.ID, err = c.text(name); err != nil {
		return nil, err
	}
	if s.ID == "" {
		return nil, refused("the token has no claim %s", name)
	}
	if name = i.Claims[toTenant]; name != "" {
		if s.Tenant, err = c.text(name); err != nil {
			return nil, err
		}
		if s.Tenant != "" && !plain(s.Tenant) {
			return nil, refused("the claim %s is not 1 to 64 of letters, digits and the signs . _ -", name)
		}
	}
	s.Words, err = i.words(c)
	return s, err
}
