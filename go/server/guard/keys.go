// Package guard is the middleware in front of the API: keys, origins and host names,
// limits on request bodies, and recovery from panics.
//
// Its errors are llama-server's error object, the same as those of the API.
package guard

import (
	"bufio"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Keys are the API keys that are accepted. They are kept as hashes.
type Keys struct {
	list []key
	weak error
}

type key struct {
	hash   [sha256.Size]byte
	weight float64
}

// hashPrefix marks a key that is given as its SHA-256 in hexadecimal. Keys are random
// and long, so a slow hash would not protect them better.
const hashPrefix = "sha256:"

// maxWeight is a sanity bound, far above any useful share.
const maxWeight = 1000

// minKey is the length below which a key can be brute-forced over a network.
const minKey = 8

// NewKeys returns the keys of a list, each in plain text or as "sha256:" and its hash.
func NewKeys(list []string) (*Keys, error) {
	k := &Keys{}
	for i, key := range list {
		if err := k.add(key, 1, fmt.Sprintf("API key %d", i+1)); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// AddFile adds the keys of a file: one per line, optionally followed by the weight of
// its share of the machine, 1 by default; empty lines and lines that begin with # are
// ignored. Errors give the file and the line, and never a key.
func (k *Keys) AddFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	n := len(k.list)
	lines := bufio.NewScanner(f)
	for i := 1; lines.Scan(); i++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		where := fmt.Sprintf("%s, line %d", path, i)
		key, weight, err := cutWeight(line)
		if err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		if err := k.add(key, weight, where); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if len(k.list) == n {
		return fmt.Errorf("%s has no keys, want one a line", path)
	}
	return nil
}

// cutWeight splits a line into key and weight.
func cutWeight(line string) (key string, weight float64, err error) {
	key, rest, found := strings.Cut(strings.ReplaceAll(line, "\t", " "), " ")
	if !found {
		return key, 1, nil
	}
	weight, err = strconv.ParseFloat(strings.TrimSpace(rest), 64)
	if err != nil || !(weight > 0 && weight <= maxWeight) { // NaN is neither
		return "", 0, fmt.Errorf("after the key there is no weight, want a number above 0 and at most %d", maxWeight)
	}
	return key, weight, nil
}

// add adds a key. where is its position, for errors.
func (k *Keys) add(text string, weight float64, where string) error {
	var h [sha256.Size]byte
	if digits, ok := strings.CutPrefix(text, hashPrefix); ok {
		b, err := hex.DecodeString(digits)
		if err != nil || len(b) != len(h) {
			return fmt.Errorf("%s: %s has to be followed by %d hexadecimal digits", where, hashPrefix, 2*len(h))
		}
		copy(h[:], b)
	} else {
		if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return fmt.Errorf("%s: it is empty or has a character that cannot stand in a header, want printable ASCII without spaces", where)
		}
		if len(text) < minKey && k.weak == nil {
			k.weak = fmt.Errorf("%s: it has %d characters, want at least %d", where, len(text), minKey)
		}
		h = sha256.Sum256([]byte(text))
	}
	k.list = append(k.list, key{h, weight})
	return nil
}

// Weak returns an error for the first key that is short enough to be brute-forced over
// a network, nil where there is none.
func (k *Keys) Weak() error { return k.weak }

// Len returns the number of keys.
func (k *Keys) Len() int { return len(k.list) }

// Check looks text up among the keys, in constant time. It returns a name for the key
// that is safe to log, the beginning of its hash, and the key's weight.
func (k *Keys) Check(text string) (name string, weight float64, ok bool) {
	h := sha256.Sum256([]byte(text))
	for i := range k.list {
		if subtle.ConstantTimeCompare(h[:], k.list[i].hash[:]) == 1 {
			weight = k.list[i].weight // no early exit: constant time
		}
	}
	if weight == 0 {
		return "", 0, false
	}
	return hex.EncodeToString(h[:4]), weight, true
}
