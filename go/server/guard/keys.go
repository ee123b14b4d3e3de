// Package guard is the middleware in front of the API: keys, origins and host names,
// limits on request bodies, and recovery from panics.
//
// Its errors are llama-server's error object, the same as those of the API.
package guard

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/quern-llm/quern/go/server/quota"
)

// Keys are the accepted API keys, stored as hashes, and the issuers whose tokens are accepted beside them. Its methods are
// safe for concurrent use, but for AddFile and Trust.
type Keys struct {
	given *table // of NewKeys
	file  string // of AddFile; empty: there is none
	read  stamp  // of the file, when it was read
	now   atomic.Pointer[table]

	subjects *subjects // of tokens; nil: none are accepted

	mu       sync.Mutex
	accounts map[[sha256.Size]byte]*quota.Account // also of keys that were removed on this day
}

// A table is the keys of a time.
type table struct {
	list  []key
	names map[string]named // by Key.Name: of no two keys the same, as it says whose files and batches are
	roles bool             // a line of the file gives one, or did
	lost  bool             // none does any more
	weak  error
}

// A named is a key of a table.
type named struct {
	n     int // in the list
	where string
}

type key struct {
	hash     [sha256.Size]byte
	label    string // its name; empty: it has none
	weight   float64
	role     string // empty: not given
	priority *int   // nil: that of the role
	limits   quota.Limits
	account  *quota.Account
}

// A Key is the key of a request, or what its token stands for.
type Key struct {
	Name     string   // safe to log: the beginning of its hash, or of the subject's
	Label    string   // its name in the file, or the subject's; empty: it has none
	Tenant   string   // of a subject; empty: none
	Weight   float64  // of its share of the machine
	Admin    bool     // may change the server, and end requests of others
	Priority int      // the highest that its requests may ask for
	Models   []string // that it may ask; nil: all. A subject's tokens may have others each, and share the account
	Account  *quota.Account
}

// Called is the key's name in the file, or else the beginning of its hash.
func (k *Key) Called() string { return cmp.Or(k.Label, k.Name) }

// Roles of keys. An admin's requests may have any priority, a user's none above that of others by default.
const (
	admin = "admin"
	user  = "user"
)

// maxPriority is the highest priority of a request.
const maxPriority = 1000

// hashPrefix marks a key that is given as its SHA-256 in hexadecimal. Keys are random
// and long, so a slow hash would not protect them better.
const hashPrefix = "sha256:"

// maxWeight is a limit for plausibility, far above any useful share.
const maxWeight = 1000

// minKey is the length below which a key can be brute-forced over a network.
const minKey = 8

// NewKeys returns the keys of a list, each in plain text or as "sha256:" and its hash.
func NewKeys(list []string) (*Keys, error) {
	t := &table{names: map[string]named{}}
	for i, text := range list {
		if err := t.add(text, key{weight: 1}, fmt.Sprintf("API key %d", i+1)); err != nil {
			return nil, err
		}
	}
	k := &Keys{given: t}
	k.accept(t)
	return k, nil
}

// accept has keys be the accepted ones. Those that were there before keep what was counted of them.
func (k *Keys) accept(t *table) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.accounts == nil {
		k.accounts = map[[sha256.Size]byte]*quota.Account{}
	}
	here := map[*quota.Account]bool{}
	for i := range t.list {
		one := &t.list[i]
		if one.account = k.accounts[one.hash]; one.account == nil {
			one.account = quota.New(one.limits, nil)
			k.accounts[one.hash] = one.account
		} else {
			one.account.SetLimits(one.limits)
		}
		here[one.account] = true
	}
	maps.DeleteFunc(k.accounts, func(_ [sha256.Size]byte, a *quota.Account) bool {
		return !here[a] && (a.Idle() || len(k.accounts) > 2*maxKeys)
	})
	k.now.Store(t)
}

// keys returns the keys of now.
func (k *Keys) keys() *table {
	if t := k.now.Load(); t != nil {
		return t
	}
	return &table{}
}

// AddFile adds the keys of a file: one per line, optionally followed by the weight of
// its share of the machine, 1 by default, its role, the highest priority of its requests, a name, and limits
// (quota.Limits); empty lines and lines that begin with # are ignored. Errors give the file and the line, and never a key.
//
// While no line has a role, all keys are admins. As soon as one has, keys without a role are users, for as long as the
// process runs: who removes the key of the last admin does not mean to make all others admins.
//
// There is one file, which Follow reads again when it changes.
func (k *Keys) AddFile(path string) error {
	k.file, k.read = path, stampOf(path)
	return k.load(nil)
}

// load reads the file, and has its keys accepted beside those that were given, unless one is malformed or check refuses
// them.
func (k *Keys) load(check func(*table) error) error {
	next := &table{names: map[string]named{}}
	if k.given != nil {
		*next = *k.given
		next.list, next.names = slices.Clone(next.list), maps.Clone(next.names)
	}
	if err := next.addFile(k.file); err != nil {
		return err
	}
	if check != nil {
		if err := check(next); err != nil {
			return err
		}
	}
	if k.keys().roles && !next.roles {
		next.roles, next.lost = true, true
	}
	k.accept(next)
	return nil
}

// maxKeys is how many keys there may be: each request is compared with all of them.
const maxKeys = 10_000

// maxLine is the length of a line, which may name a thousand models.
const maxLine = 1 << 20

// addFile adds the keys of a file.
func (k *table) addFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	n, labels := len(k.list), map[string]int{} // their lines
	lines, last := bufio.NewScanner(f), 0
	lines.Buffer(nil, maxLine)
	for i := 1; lines.Scan(); i++ {
		last = i
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		where := fmt.Sprintf("%s, line %d", path, i)
		if len(k.list) == maxKeys {
			return fmt.Errorf("%s: there are more than %d keys, want at most so many", where, maxKeys)
		}
		words := strings.Fields(line)
		about, err := parseKey(words[1:])
		if err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		if line, there := labels[about.label]; there {
			return fmt.Errorf("%s: name= is that of line %d, want another", where, line)
		}
		if about.label != "" {
			labels[about.label] = i
		}
		if err := k.add(words[0], about, where); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s, line %d: %w", path, last+1, err)
	}
	if len(k.list) == n {
		return fmt.Errorf("%s has no keys, want one a line", path)
	}
	return nil
}

// parseKey returns what the words after a key say of it.
func parseKey(words []string) (key, error) {
	k := key{weight: 1}
	for i, word := range words {
		name, value, _ := strings.Cut(word, "=")
		isLimit, err := k.limits.Set(word)
		switch {
		case err != nil:
			return k, err
		case isLimit:
		case word == admin, word == user:
			if k.role != "" {
				return k, fmt.Errorf("word %d after the key is a second role, want one", i+1)
			}
			k.role = word
		case name == "priority":
			n, err := strconv.Atoi(value)
			if err != nil || n < -maxPriority || n > maxPriority {
				return k, fmt.Errorf("priority= is not followed by an integer from %d to %d", -maxPriority, maxPriority)
			}
			k.priority = &n
		case name == "name":
			if !plain(value) {
				return k, fmt.Errorf("name= is not followed by 1 to 64 of letters, digits and the signs . _ -")
			}
			if _, err := hex.DecodeString(value); err == nil && len(value) == 2*nameBytes {
				return k, fmt.Errorf("name= is followed by %d hexadecimal digits, as keys without a name are called, want another", 2*nameBytes)
			}
			if k.label != "" {
				return k, fmt.Errorf("name= is there twice, want it once")
			}
			k.label = value
		default:
			weight, err := strconv.ParseFloat(word, 64)
			if err != nil || !(weight > 0 && weight <= maxWeight) { // NaN is neither
				return k, fmt.Errorf("word %d after the key is no weight, role, priority, name or limit, want a number above 0 and at "+
					"most %d, %s, %s, priority=N, name=TEXT, or %s", i+1, maxWeight, admin, user, quota.Words)
			}
			k.weight = weight
		}
	}
	return k, nil
}

// add adds a key. where is its position, for errors.
func (k *table) add(text string, about key, where string) error {
	h := &about.hash
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
		*h = sha256.Sum256([]byte(text))
	}
	name := about.name()
	if other, there := k.names[name]; there {
		if k.list[other.n].hash == *h {
			return fmt.Errorf("%s: the key is that of %s, want each once", where, other.where)
		}
		return fmt.Errorf("%s: the key's hash begins like that of %s, so that each had the other's files; want another key", where, other.where)
	}
	k.names[name] = named{len(k.list), where}
	k.list = append(k.list, about)
	k.roles = k.roles || about.role != ""
	return nil
}

// Weak returns an error for the first key that is short enough to be brute-forced over a network, nil if there is none.
func (k *Keys) Weak() error { return k.keys().weak }

// LostRoles reports whether the file had roles and has none any more: all keys are users then, until the next start.
func (k *Keys) LostRoles() bool { return k.keys().lost }

// Len returns the number of keys.
func (k *Keys) Len() int { return len(k.keys().list) }

// Open reports whether anybody may ask: there are no keys, and no tokens are accepted.
func (k *Keys) Open() bool { return k.Len() == 0 && k.subjects == nil }

// Several reports whether there may be several who ask.
func (k *Keys) Several() bool { return k.Len() > 1 || k.subjects != nil }

// Check looks up a key in constant time.
func (k *Keys) Check(text string) (found Key, ok bool) { return k.keys().check(text) }

func (k *table) check(text string) (found Key, ok bool) {
	h := sha256.Sum256([]byte(text))
	match := -1
	for i := range k.list {
		if subtle.ConstantTimeCompare(h[:], k.list[i].hash[:]) == 1 {
			match = i // no early exit: constant time
		}
	}
	if match < 0 {
		return Key{}, false
	}
	return k.about(&k.list[match]), true
}

// nameBytes is how much of its hash a key is named by.
const nameBytes = 4

// name returns the beginning of the hash.
func (k *key) name() string { return hex.EncodeToString(k.hash[:nameBytes]) }

// about returns what is known of a key.
func (k *table) about(one *key) (found Key) {
	found = Key{Name: one.name(), Label: one.label, Weight: one.weight,
		Admin: one.role == admin || !k.roles, Models: one.limits.Models, Account: one.account}
	switch {
	case one.priority != nil:
		found.Priority = *one.priority
	case found.Admin:
		found.Priority = maxPriority
	}
	return found
}

// All returns the keys, and the subjects that have come.
func (k *Keys) All() (all []Key) {
	t := k.keys()
	for i := range t.list {
		all = append(all, t.about(&t.list[i]))
	}
	return append(all, k.subjects.all()...)
}

// Totals returns the keys, and the tenants of subjects, whose accounts never count less than they did.
func (k *Keys) Totals() (all []Key) {
	t := k.keys()
	for i := range t.list {
		all = append(all, t.about(&t.list[i]))
	}
	return append(all, k.subjects.totals()...)
}

// Named returns the key of a Key.Name; false: there is none, or not any more, or it is that of a subject who has not come
// yet.
func (k *Keys) Named(name string) (found Key, ok bool) {
	t := k.keys()
	at, ok := t.names[name]
	if !ok {
		return k.subjects.named(name)
	}
	return t.about(&t.list[at.n]), true
}
