package oidc

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// What claims may set: who it is, and the words after a key of the file of keys.
const (
	toSubject = "subject"
	toTenant  = "tenant"
	toRole    = "role"
	toWeight  = "weight"
	toModels  = "models"
)

var targets = []string{
	toSubject, toTenant, toRole, toWeight, "priority", toModels, "rpm", "rpd", "tpm-in", "tpm-out", "tpd-in", "tpd-out", "concurrent",
}

// targetOf returns what a word after a key sets.
func targetOf(word string) string {
	name, _, named := strings.Cut(word, "=")
	switch {
	case named:
		return name
	case word == "admin" || word == "user":
		return toRole
	}
	return toWeight
}

// claims are the members of a token's payload.
type claims map[string]jsontext.Value

// find returns a claim: the one of that name, or else with dots the member of a member. nil: there is none, or it is null.
func (c claims) find(name string) jsontext.Value {
	v, ok := c[name]
	for !ok {
		outer, inner, dotted := strings.Cut(name, ".")
		if !dotted {
			return nil
		}
		var members claims
		if json.Unmarshal(c[outer], &members) != nil {
			return nil
		}
		c, name = members, inner
		v, ok = c[name]
	}
	if v.Kind() == 'n' {
		return nil
	}
	return v
}

// texts returns the texts of a claim that is a text or a list of texts.
func texts(v jsontext.Value) (all []string, ok bool) {
	if v.Kind() == '"' {
		var one string
		ok = json.Unmarshal(v, &one) == nil
		return []string{one}, ok
	}
	ok = v.Kind() == '[' && json.Unmarshal(v, &all) == nil
	return all, ok
}

// has reports whether a claim is a value or a list with it.
func (c claims) has(name, value string) bool {
	all, ok := texts(c.find(name))
	return ok && slices.Contains(all, value)
}

// text returns a claim that is a text of at most maxText bytes; "" where there is none.
func (c claims) text(name string) (text string, err error) {
	v := c.find(name)
	if v == nil {
		return "", nil
	}
	if v.Kind() != '"' || json.Unmarshal(v, &text) != nil || text == "" || len(text) > maxText {
		return "", refused("the claim %s is no text of 1 to %d bytes", name, maxText)
	}
	return text, nil
}

// maxText is what OpenID Connect allows a subject.
const maxText = 255

// words returns what the claims grant, in the words after a key.
func (i *Issuer) words(c claims) ([]string, error) {
	granted := map[string]string{toRole: "user"}
	if len(i.Grants) > 0 {
		n := slices.IndexFunc(i.Grants, func(g Grant) bool { return g.Claim == "" || c.has(g.Claim, g.Has) })
		if n < 0 {
			return nil, &Error{Kind: Forbidden, Reason: "the token grants nothing on this server"}
		}
		for _, word := range strings.Fields(i.Grants[n].Key) {
			granted[targetOf(word)] = word
		}
	}
	for to, name := range i.Claims {
		v := c.find(name)
		if v == nil || to == toSubject || to == toTenant {
			continue
		}
		word, err := wordOf(to, name, v)
		if err != nil {
			return nil, err
		}
		granted[to] = word
	}
	return slices.Sorted(maps.Values(granted)), nil
}

// wordOf returns the word that a claim stands for. Whether its number is in range is for who reads the words.
func wordOf(to, name string, v jsontext.Value) (string, error) {
	switch to {
	case toRole:
		all, ok := texts(v)
		switch {
		case !ok:
			return "", refused("the claim %s is no text or list of texts", name)
		case slices.Contains(all, "admin"):
			return "admin", nil
		}
		return "user", nil
	case toModels:
		all, ok := texts(v)
		list := v.Kind() == '['
		if !ok || len(all) == 0 || slices.Contains(all, "") || list && slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, ",") }) {
			return "", refused("the claim %s is no list of names of models", name)
		}
		return "models=" + strings.Join(all, ","), nil
	}
	if v.Kind() != '0' {
		return "", refused("the claim %s is no number", name)
	}
	if to == toWeight {
		return string(v), nil
	}
	return to + "=" + string(v), nil
}

func refused(format string, args ...any) *Error {
	return &Error{Kind: Invalid, Reason: fmt.Sprintf(format, args...)}
}
