package guard

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/quern-llm/quern/go/server/oidc"
	"github.com/quern-llm/quern/go/server/quota"
)

// subjects are those whose tokens were accepted, as keys. Its methods are safe for concurrent use; a nil one has none.
type subjects struct {
	verifier *oidc.Verifier
	most     int

	mu      sync.Mutex
	ids     map[string]*list.Element // by Key.Name
	order   *list.List               // of *subject, the one that came last first
	tenants map[string]*quota.Account
}

// A subject is what is known of who has come with a token.
type subject struct {
	key   Key // of the last token
	words []string
}

// Bounds of what issuers may have a server remember: they, and who registers with them, choose the names.
const (
	maxSubjects = 10_000
	maxTenants  = 100 // that have counters of their own
)

// subjectBytes is how much of its hash a subject is named by: who chooses a name could have the files of another that begins
// alike.
const subjectBytes = 16

// Trust has tokens that v accepts stand for keys, beside those that there are.
func (k *Keys) Trust(v *oidc.Verifier) { k.subjects = newSubjects(v, maxSubjects) }

func newSubjects(v *oidc.Verifier, most int) *subjects {
	return &subjects{verifier: v, most: most, ids: map[string]*list.Element{}, order: list.New(),
		tenants: map[string]*quota.Account{}}
}

// CheckGrant checks the words of a grant, which are those after a key.
func CheckGrant(words []string) error {
	_, err := parseKey(words)
	return err
}

var (
	errNoToken = &oidc.Error{Reason: `invalid API key: give one as "Authorization: Bearer KEY" or "X-Api-Key: KEY"`}
	errWords   = &oidc.Error{Reason: "a claim of the token has a number or a name that a key could not have"}
)

// token returns what a text stands for that is no key. The error says why it is none.
func (k *Keys) token(ctx context.Context, text string) (Key, *oidc.Error) {
	if k.subjects == nil || !oidc.Like(text) {
		return Key{}, errNoToken
	}
	who, err := k.subjects.verifier.Check(ctx, text)
	if err == nil {
		var key Key
		if key, err = k.subjects.admit(who); err == nil {
			return key, nil
		}
	}
	var wrong *oidc.Error
	if !errors.As(err, &wrong) {
		wrong = errNoToken
	}
	return Key{}, wrong
}

// admit returns the key of a subject, with what was counted of it. The rights are those of the token, and the quotas too
// until another comes.
func (s *subjects) admit(who *oidc.Subject) (Key, error) {
	h := sha256.Sum256([]byte(who.URL + "\x00" + who.ID))
	id := hex.EncodeToString(h[:subjectBytes])
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.ids[id]
	if at != nil {
		s.order.MoveToFront(at)
		if one := at.Value.(*subject); slices.Equal(one.words, who.Words) && one.key.Tenant == who.Tenant {
			return one.key, nil
		}
	}
	about, err := parseKey(who.Words)
	if err != nil {
		return Key{}, errWords
	}
	if at == nil {
		s.drop()
		account := quota.New(about.limits, nil)
		at = s.order.PushFront(&subject{key: Key{Name: id, Label: subjectLabel(who, id), Account: account}})
		s.ids[id] = at
	}
	one := at.Value.(*subject)
	one.words = who.Words
	one.key.Tenant, one.key.Weight, one.key.Admin = who.Tenant, about.weight, about.role == admin
	one.key.Models = about.limits.Models
	one.key.Priority = 0
	switch {
	case about.priority != nil:
		one.key.Priority = *about.priority
	case one.key.Admin:
		one.key.Priority = maxPriority
	}
	one.key.Account.SetLimits(about.limits)
	one.key.Account.Into(s.tenant(who))
	return one.key, nil
}

// drop makes room for one more: who came longest ago and has nothing running goes, and comes back as new. s.mu is held.
func (s *subjects) drop() {
	if s.order.Len() < s.most {
		return
	}
	at := s.order.Back()
	for before := at; before != nil; before = before.Prev() {
		if before.Value.(*subject).key.Account.Running() == 0 {
			at = before
			break
		}
	}
	delete(s.ids, at.Value.(*subject).key.Name)
	s.order.Remove(at)
}

// tenant returns what counts the requests of a subject's tenant: the first maxTenants have counters of their own. s.mu is
// held.
func (s *subjects) tenant(who *oidc.Subject) *quota.Account {
	name := who.Tenant
	if name == "" {
		name = "(none)"
	}
	name = who.Issuer + ":" + name
	if s.tenants[name] == nil && len(s.tenants) >= maxTenants {
		name = quota.Others
	}
	if s.tenants[name] == nil {
		s.tenants[name] = quota.New(quota.Limits{}, nil)
	}
	return s.tenants[name]
}

// hashed is before the hash of a subject in its label, and begins no other label's name.
const hashed = "#"

// subjectLabel returns what the log calls a subject: the issuer, a colon, which no name of a key has, and what the token
// calls it, or its hash where that is not printable ASCII or could be another's hash. So none looks like another.
func subjectLabel(who *oidc.Subject, id string) string {
	name := who.ID
	if strings.HasPrefix(name, hashed) || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
		name = hashed + id
	}
	return who.Issuer + ":" + name
}

func (s *subjects) all() (all []Key) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := s.order.Front(); at != nil; at = at.Next() {
		all = append(all, at.Value.(*subject).key)
	}
	return all
}

func (s *subjects) totals() (all []Key) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, account := range s.tenants {
		all = append(all, Key{Label: name, Account: account})
	}
	return all
}

func (s *subjects) named(name string) (Key, bool) {
	if s == nil {
		return Key{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.ids[name]
	if at == nil {
		return Key{}, false
	}
	return at.Value.(*subject).key, true
}
