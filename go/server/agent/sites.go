package agent

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/net/idna"

	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// A Filter selects pages by their sites.
type Filter struct{ Allow, Block []Site }

// A Site is a domain with those below it, or the pages under a path there.
type Site struct {
	host string // as hostOf has it
	path string // that paths begin with, where * is any text; empty: any
}

// maxSites is how many sites a filter may have.
const maxSites = 100

// ReadSites reads a list of domains, which have paths behind them where an API has that.
func ReadSites(v jsontext.Value, paths bool) ([]Site, error) {
	var given []string
	if len(v) == 0 || v.Kind() == 'n' {
		return nil, nil
	}
	if err := field.Decode(v, &given); err != nil {
		return nil, err
	}
	if len(given) > maxSites {
		return nil, reply.Bad("%d domains, want at most %d", len(given), maxSites)
	}
	all := []Site{}
	for _, text := range given {
		domain, under := text, ""
		if i := strings.IndexByte(text, '/'); paths && i >= 0 {
			domain, under = text[:i], text[i:]
		}
		host, err := hostOf(strings.Trim(domain, "."))
		if err != nil || host == "" || strings.ContainsAny(domain, "/:@?#* ") || strings.Contains(under, "//") {
			return nil, reply.Bad("%s is no domain, want one such as example.com", field.Quote(text))
		}
		if strings.ContainsAny(under, "?# ") || strings.Count(under, "*") > 1 {
			return nil, reply.Bad("%s has a path that is none, want one such as example.com/blog, with one * at most", field.Quote(text))
		}
		all = append(all, Site{host, strings.TrimSuffix(under, "/")})
	}
	return all, nil
}

// has reports whether a page is of the site.
func (s *Site) has(host, at string) bool {
	if host != s.host && !strings.HasSuffix(host, "."+s.host) {
		return false
	}
	before, after, any := strings.Cut(s.path, "*")
	if !strings.HasPrefix(at, before) {
		return false
	}
	rest := at[len(before):]
	if !any { // whole names
		return rest == "" || rest[0] == '/'
	}
	return strings.Contains(rest, after)
}

// errLeftOut is the kind of error for pages of sites that the request leaves out.
var errLeftOut = errors.New("are left out")

// allowed returns an error for pages of sites that one of the filters leaves out.
func allowed(filters []Filter, u *url.URL) error {
	host, err := hostOf(u.Hostname())
	if err != nil {
		return err
	}
	at := path.Clean("/" + u.Path)
	of := func(s Site) bool { return s.has(host, at) }
	for _, f := range filters {
		if slices.ContainsFunc(f.Block, of) || len(f.Allow) > 0 && !slices.ContainsFunc(f.Allow, of) {
			return fmt.Errorf("pages of %.100s %w", host, errLeftOut)
		}
	}
	return nil
}

// hostOf returns a host in the one form in which hosts are compared: that in which it is looked up, as net/http does, without
// capitals and the dot at the end. Different texts may be the same host.
func hostOf(host string) (string, error) {
	if strings.ContainsFunc(host, func(r rune) bool { return r >= utf8.RuneSelf }) {
		ascii, err := idna.Lookup.ToASCII(host)
		if err != nil {
			return "", fmt.Errorf("%.100q is no name of a host", host)
		}
		host = ascii
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().String(), nil
	}
	return strings.ToLower(strings.TrimSuffix(host, ".")), nil
}
