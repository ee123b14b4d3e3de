// Package guard is what stands before the API: keys, origins of other pages,
// limits on what a request may send, and what happens when a handler panics.
//
// Its middleware answers with llama-server's error object, so that a client
// meets one shape of error whoever refuses.
package guard

import (
	"bufio"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
)

// Keys are the API keys that are accepted. They are kept as hashes.
type Keys struct {
	hashes [][sha256.Size]byte
}

// hashPrefix marks a key that is given by its SHA-256, in hexadecimal digits. Keys
// are random and long: a slow hash would protect nothing more.
const hashPrefix = "sha256:"

// minKey is the length below which a key can be guessed over a network.
const minKey = 8

// NewKeys returns the keys of a list, each as it is or as "sha256:" and its hash.
func NewKeys(list []string) (*Keys, error) {
	k := &Keys{}
	for i, key := range list {
		if err := k.add(key); err != nil {
			return nil, fmt.Errorf("API key %d: %w", i+1, err)
		}
	}
	return k, nil
}

// AddFile adds the keys of a file: one a line, empty lines and lines that begin
// with # left out. Errors name the file and the line, and no key.
func (k *Keys) AddFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	n := len(k.hashes)
	lines := bufio.NewScanner(f)
	for i := 1; lines.Scan(); i++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if err := k.add(line); err != nil {
			return fmt.Errorf("%s, line %d: %w", path, i, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if len(k.hashes) == n {
		return fmt.Errorf("%s has no keys, want one a line", path)
	}
	return nil
}

func (k *Keys) add(key string) error {
	var h [sha256.Size]byte
	if digits, ok := strings.CutPrefix(key, hashPrefix); ok {
		b, err := hex.DecodeString(digits)
		if err != nil || len(b) != len(h) {
			return fmt.Errorf("%s has to be followed by %d hexadecimal digits", hashPrefix, 2*len(h))
		}
		copy(h[:], b)
	} else {
		if len(key) < minKey {
			return fmt.Errorf("it has %d characters, want at least %d", len(key), minKey)
		}
		if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return fmt.Errorf("it has a character that cannot stand in a header, want printable ASCII without spaces")
		}
		h = sha256.Sum256([]byte(key))
	}
	k.hashes = append(k.hashes, h)
	return nil
}

// Len returns the number of keys.
func (k *Keys) Len() int { return len(k.hashes) }

// Check tells whether key is one of them, and gives it a name that is safe to
// log: the beginning of its hash. It takes as long for any key.
func (k *Keys) Check(key string) (name string, ok bool) {
	h := sha256.Sum256([]byte(key))
	found := 0
	for i := range k.hashes {
		found |= subtle.ConstantTimeCompare(h[:], k.hashes[i][:])
	}
	if found == 0 {
		return "", false
	}
	return hex.EncodeToString(h[:4]), true
}
