// Package oidctest has an issuer of tokens over HTTP for tests.
package oidctest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// An Issuer has a discovery document, a set of keys, and signs tokens with the newest of them.
type Issuer struct {
	URL    string
	t      testing.TB
	server *httptest.Server

	mu       sync.Mutex
	keys     []jose.JSONWebKey // private
	made     int
	down     bool
	document map[string]any // of the discovery, beside what it is
	fetches  int
}

// New starts an issuer with a key for ES256.
func New(t testing.TB) *Issuer {
	i := &Issuer{t: t, document: map[string]any{}}
	i.server = httptest.NewServer(http.HandlerFunc(i.serve))
	i.URL = i.server.URL
	t.Cleanup(i.server.Close)
	i.Rotate("ES256")
	return i
}

func (i *Issuer) serve(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.down {
		http.Error(w, "down", http.StatusBadGateway)
		return
	}
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		document := map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys", "token_endpoint": i.URL + "/token"}
		maps.Copy(document, i.document)
		json.NewEncoder(w).Encode(document)
	case "/keys":
		i.fetches++
		w.Write(i.set())
	default:
		http.NotFound(w, r)
	}
}

// set returns the public keys. i.mu is held.
func (i *Issuer) set() []byte {
	set := jose.JSONWebKeySet{}
	for _, k := range i.keys {
		set.Keys = append(set.Keys, k.Public())
	}
	b, err := json.Marshal(set)
	if err != nil {
		panic(err)
	}
	return b
}

// Set returns the public keys as a JSON Web Key Set.
func (i *Issuer) Set() []byte {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.set()
}

// Fetches returns how often the keys were asked for.
func (i *Issuer) Fetches() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fetches
}

// Down has the issuer be out of order, or not.
func (i *Issuer) Down(down bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down = down
}

// Say sets a member of the discovery document.
func (i *Issuer) Say(name string, value any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.document[name] = value
}

// Add adds a key for an algorithm, which signs from now on.
func (i *Issuer) Add(algorithm string) {
	k := newKey(i.t, algorithm)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.made++
	i.keys = append(i.keys, jose.JSONWebKey{Key: k, KeyID: fmt.Sprint("key-", i.made), Algorithm: algorithm, Use: "sig"})
}

// Rotate replaces all keys by one for an algorithm.
func (i *Issuer) Rotate(algorithm string) {
	i.mu.Lock()
	i.keys = nil
	i.mu.Unlock()
	i.Add(algorithm)
}

// Key returns the private key that signs.
func (i *Issuer) Key() jose.JSONWebKey {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.keys[len(i.keys)-1]
}

// Token returns a token for ann and the audience quern that expires in an hour; claims replace and, where nil, remove these.
func (i *Issuer) Token(claims map[string]any) string { return i.Sign(i.Key(), claims) }

// Sign returns such a token that a key signs.
func (i *Issuer) Sign(k jose.JSONWebKey, claims map[string]any) string {
	all := map[string]any{"iss": i.URL, "sub": "ann", "aud": "quern", "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(all, claims)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	payload, err := json.Marshal(all)
	if err != nil {
		i.t.Fatal(err)
	}
	return Sign(i.t, k, payload)
}

// Sign returns a token with a payload.
func Sign(t testing.TB, k jose.JSONWebKey, payload []byte) string {
	t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(k.Algorithm), Key: k}, nil)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := s.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func newKey(t testing.TB, algorithm string) (k crypto.Signer) {
	var err error
	switch algorithm {
	case "ES256":
		k, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ES384":
		k, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "EdDSA":
		_, k, err = ed25519.GenerateKey(rand.Reader)
	default:
		k, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		t.Fatal(err)
	}
	return k
}
