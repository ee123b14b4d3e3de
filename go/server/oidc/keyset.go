package oidc

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Limits of a set of keys.
const (
	maxSet    = 256 << 10 // bytes
	maxInSet  = 100
	minRSA    = 2048 // bits, of RFC 7518
	maxKeyID  = 256
	signsOnly = "sig"
)

// A key verifies signatures.
type key struct {
	id        string // of the header kid; may be empty
	algorithm string // the only one it is for; empty: those that its type has
	public    any    // *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey
}

// parseSet returns the keys of a JSON Web Key Set (RFC 7517) that can verify tokens. Others are passed over: those for encryption,
// shared secrets, types that are not known, and RSA keys that are too short.
func parseSet(data []byte) (all []key, err error) {
	var set struct {
		Keys []jsontext.Value `json:"keys"`
	}
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, fmt.Errorf("no JSON Web Key Set: %w", err)
	}
	if len(set.Keys) > maxInSet {
		return nil, fmt.Errorf("the set has %d keys, want at most %d", len(set.Keys), maxInSet)
	}
	for _, raw := range set.Keys {
		if k, ok := parseKey(raw); ok {
			all = append(all, k)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("none of the %d keys of the set can verify tokens, want RSA of at least %d bits, P-256, P-384, P-521 or Ed25519", len(set.Keys), minRSA)
	}
	return all, nil
}

func parseKey(raw jsontext.Value) (k key, ok bool) {
	var about struct {
		Type string         `json:"kty"`
		D    jsontext.Value `json:"d"` // of private keys, which are costly to read and nobody's to publish
	}
	if json.Unmarshal(raw, &about) != nil || about.Type == "oct" || about.D != nil {
		return k, false
	}
	var parsed jose.JSONWebKey
	if parsed.UnmarshalJSON(raw) != nil || parsed.Use != "" && parsed.Use != signsOnly || len(parsed.KeyID) > maxKeyID {
		return k, false
	}
	switch public := parsed.Key.(type) {
	case *rsa.PublicKey:
		ok = public.N.BitLen() >= minRSA
	case *ecdsa.PublicKey, ed25519.PublicKey:
		ok = true
	}
	return key{parsed.KeyID, parsed.Algorithm, parsed.Key}, ok
}

// fits reports whether a key may verify a signature of an algorithm: never one of another type than its own.
func (k *key) fits(algorithm string) bool {
	if k.algorithm != "" && k.algorithm != algorithm {
		return false
	}
	switch public := k.public.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(algorithm, "RS") || strings.HasPrefix(algorithm, "PS")
	case *ecdsa.PublicKey:
		return algorithm == map[int]string{256: "ES256", 384: "ES384", 521: "ES512"}[public.Curve.Params().BitSize]
	case ed25519.PublicKey:
		return algorithm == "EdDSA"
	}
	return false
}

// errSeveral is of a token that does not say which of several keys it is signed with.
var errSeveral = errors.New("the token names no key, and its issuer has several")

// choose returns the keys of a set that may have signed a token. One that names no key is of the only one that fits.
func choose(set []key, id, algorithm string) (found []key, err error) {
	for _, k := range set {
		if (id == "" || k.id == id) && k.fits(algorithm) {
			found = append(found, k)
		}
	}
	if id == "" && len(found) > 1 {
		return nil, errSeveral
	}
	return found, nil
}
