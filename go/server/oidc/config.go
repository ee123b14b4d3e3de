// Package oidc verifies bearer tokens of OpenID Connect issuers (JWTs, RFC 7519), and says what an API key with the same
// rights would have.
//
// The keys of an issuer are those of its discovery document, of a URL or of a file. Signatures and keys (JWS, JWK) are
// go-jose's; which keys are asked for when, what a token must claim, and what its claims grant is here.
package oidc

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
)

// A Config is the file of the issuers.
type Config struct {
	Leeway  *int     `json:"leeway_seconds"` // that clocks may differ; nil: 60
	Cache   string   `json:"cache"`          // folder of the keys that issuers had, for a start without them; empty: none
	Issuers []Issuer `json:"issuers"`
}

// An Issuer is whose tokens are accepted, and what they grant.
type Issuer struct {
	URL        string            `json:"issuer"`     // as the claim iss has it
	Name       string            `json:"name"`       // before the names of its subjects and tenants; empty: oidc
	Keys       string            `json:"jwks"`       // URL or file of its keys; empty: its discovery says where they are
	Audiences  []string          `json:"audiences"`  // of which a token must name one
	Algorithms []string          `json:"algorithms"` // of signatures; none: usualAlgorithms
	Claims     map[string]string `json:"claims"`     // names of claims by what they set
	Grants     []Grant           `json:"grants"`     // the first that fits a token is its; none: all are users
}

// A Grant is what tokens with a value in a claim may, in the words after a key in the file of keys.
type Grant struct {
	Claim string `json:"claim"` // empty: all tokens
	Has   string `json:"has"`   // the claim is this, or a list with it
	Key   string `json:"key"`
}

// Limits of the file, far above any real one.
const (
	maxConfig    = 1 << 20
	maxIssuers   = 20
	maxGrants    = 1000
	maxAudiences = 100
	maxLeeway    = 300
	usualLeeway  = 60
)

// algorithms are those of public keys: with a shared secret (HS256) whoever can verify a token can make one.
var algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

var usualAlgorithms = []string{"RS256", "ES256", "EdDSA", "PS256"}

// ReadConfig reads the file of the issuers. parse checks the words of a grant.
func ReadConfig(path string, parse func(words []string) error) (c Config, err error) {
	f, err := os.Open(path)
	if err != nil {
		return c, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	switch {
	case err != nil:
		return c, err
	case len(data) > maxConfig:
		return c, fmt.Errorf("%s: more than %d KiB, want a JSON file of issuers", path, maxConfig>>10)
	}
	if err := json.Unmarshal(data, &c, json.RejectUnknownMembers(true)); err != nil {
		return c, fmt.Errorf("%s: %w", path, misread(err))
	}
	if err := c.check(parse); err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// misread says what of a file is not as it has to be, in its own words and not Go's.
func misread(err error) error {
	wrong := (*json.SemanticError)(nil)
	switch {
	case !errors.As(err, &wrong):
		return err
	case errors.Is(err, json.ErrUnknownName):
		return fmt.Errorf("%q is not known; see the documentation for what there is", wrong.JSONPointer)
	}
	return fmt.Errorf("%q is of the wrong type: %s", wrong.JSONPointer, wrong.JSONKind)
}

// check refuses what cannot be meant, and sets what was left out.
func (c *Config) check(parse func([]string) error) error {
	if c.Leeway == nil {
		c.Leeway = new(int)
		*c.Leeway = usualLeeway
	}
	if *c.Leeway < 0 || *c.Leeway > maxLeeway {
		return fmt.Errorf("leeway_seconds is %d, want 0 to %d", *c.Leeway, maxLeeway)
	}
	if len(c.Issuers) == 0 || len(c.Issuers) > maxIssuers {
		return fmt.Errorf(`%d issuers, want 1 to %d: {"issuers": [{"issuer": "https://...", "audiences": ["..."]}]}`, len(c.Issuers), maxIssuers)
	}
	for i := range c.Issuers {
		one := &c.Issuers[i]
		if err := one.check(parse); err != nil {
			return fmt.Errorf("issuer %d (%q): %w", i+1, one.URL, err)
		}
		for _, other := range c.Issuers[:i] {
			if other.URL == one.URL || other.Name == one.Name {
				return fmt.Errorf("issuer %d (%q): its issuer or its name %q is that of another, want each once", i+1, one.URL, one.Name)
			}
		}
	}
	return nil
}

func (i *Issuer) check(parse func([]string) error) error {
	if i.Name == "" {
		i.Name = "oidc"
	}
	if len(i.Algorithms) == 0 {
		i.Algorithms = usualAlgorithms
	}
	if !plain(i.Name) || len(i.Name) > 32 {
		return fmt.Errorf("name is %q, want 1 to 32 of letters, digits and the signs . _ -", i.Name)
	}
	if i.URL == "" {
		return fmt.Errorf("issuer is empty, want the claim iss of its tokens")
	}
	switch {
	case i.Keys == "":
		if err := checkURL(i.URL); err != nil {
			return fmt.Errorf("issuer: %w; with jwks it may be any text", err)
		}
	case isURL(i.Keys):
		if err := checkURL(i.Keys); err != nil {
			return fmt.Errorf("jwks: %w", err)
		}
	}
	if len(i.Audiences) == 0 || len(i.Audiences) > maxAudiences || slices.Contains(i.Audiences, "") {
		return fmt.Errorf("audiences: want 1 to %d texts: a token for others is not for this server", maxAudiences)
	}
	for _, name := range i.Algorithms {
		if !slices.Contains(algorithms, name) {
			return fmt.Errorf("algorithms: %q is none of %s", name, strings.Join(algorithms, ", "))
		}
	}
	for to, claim := range i.Claims {
		if !slices.Contains(targets, to) {
			return fmt.Errorf("claims: %q is none of %s", to, strings.Join(targets, ", "))
		}
		if err := checkClaim(claim); err != nil {
			return fmt.Errorf("claims: %s: %w", to, err)
		}
	}
	if len(i.Grants) > maxGrants {
		return fmt.Errorf("%d grants, want at most %d", len(i.Grants), maxGrants)
	}
	for n, g := range i.Grants {
		if g.Claim == "" && g.Has != "" {
			return fmt.Errorf("grant %d: has is of a claim, and there is none", n+1)
		}
		if g.Claim != "" {
			if err := checkClaim(g.Claim); err != nil {
				return fmt.Errorf("grant %d: %w", n+1, err)
			}
			if g.Has == "" {
				return fmt.Errorf("grant %d: has is empty, want a value of the claim %s", n+1, g.Claim)
			}
		}
		words := strings.Fields(g.Key)
		for _, word := range words {
			if targetOf(word) == "name" {
				return fmt.Errorf("grant %d: name= is of one key, and a grant is of many subjects", n+1)
			}
		}
		if err := parse(words); err != nil {
			return fmt.Errorf("grant %d: %w", n+1, err)
		}
	}
	return nil
}

// signatures returns the algorithms as go-jose has them.
func (i *Issuer) signatures() (all []jose.SignatureAlgorithm) {
	for _, name := range i.Algorithms {
		all = append(all, jose.SignatureAlgorithm(name))
	}
	return all
}

func (c *Config) leeway() time.Duration { return time.Duration(*c.Leeway) * time.Second }

// checkClaim refuses names of claims that could not stand in an error or a header.
func checkClaim(name string) error {
	if name == "" || len(name) > 256 || strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r > '~' || r == '"' || r == '\\'
	}) {
		return fmt.Errorf("%q is no name of a claim, want printable ASCII without spaces, quotes and backslashes", name)
	}
	return nil
}

// plain reports whether a text may be a name in a label of a metric.
func plain(text string) bool {
	return text != "" && len(text) <= 64 && !strings.ContainsFunc(text, func(r rune) bool {
		return !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '-' || r == '_' || r == '.')
	})
}

func isURL(text string) bool { return strings.Contains(text, "://") }

// checkURL refuses URLs at which somebody between could put keys of their own.
func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" {
		return fmt.Errorf("%q is no URL, want https://HOST/PATH", text)
	}
	return checkSecure(u)
}

func checkSecure(u *url.URL) error {
	local := u.Hostname() == "localhost"
	if at, err := netip.ParseAddr(u.Hostname()); err == nil {
		local = at.IsLoopback()
	}
	if u.Scheme != "https" && !(u.Scheme == "http" && local) {
		return fmt.Errorf("%s://%s: want https, as keys that come in clear could be anybody's; http is for this machine alone", u.Scheme, u.Host)
	}
	return nil
}
