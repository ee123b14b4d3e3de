package fleet

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/quern-llm/quern/go/internal/usage"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/guard"
	"github.com/quern-llm/quern/go/server/host"
	"github.com/quern-llm/quern/go/server/oidc"
	"github.com/quern-llm/quern/go/server/quota"
)

// Access says who may ask.
type Access struct {
	Keys         *guard.Keys // that clients need; nil: none
	OIDC         string      // file of issuers whose tokens stand for keys; empty: none
	RequireKey   bool        // others may reach the server only with a key
	Origins      []string    // whose pages may use the API
	AllowedHosts []string    // names of the server besides localhost

	everybody *quota.Account // counts the requests of all where there are no keys
}

// noKeys is no keys.
var noKeys = &guard.Keys{}

func (a *Access) keys() *guard.Keys {
	if a.Keys == nil {
		return noKeys
	}
	return a.Keys
}

// openIssuers asks the issuers of tokens for their keys.
func (f *Fleet) openIssuers(ctx context.Context) error {
	a := &f.c.Access
	if a.OIDC == "" {
		return nil
	}
	c, err := oidc.ReadConfig(a.OIDC, guard.CheckGrant)
	if err != nil {
		return usage.Errorf("--oidc-config: %w", err)
	}
	v, err := oidc.Open(ctx, c, func(issuer, what string, err error) {
		line := f.log.Info()
		if err != nil {
			line = f.log.Warn().Err(err)
		}
		line.Str("issuer", issuer).Msg(what)
	})
	if err != nil {
		return usage.Errorf("--oidc-config: %s: %w", a.OIDC, err)
	}
	f.onClose(v.Close)
	if a.Keys == nil {
		a.Keys = &guard.Keys{}
	}
	a.Keys.Trust(v)
	return nil
}

// checkAccess refuses to serve where others could do harm, and warns where they could use the models.
func (f *Fleet) checkAccess(context.Context) error {
	a, hosts := &f.c.Access, f.c.Address.Hosts
	keys, at := a.keys(), strings.Join(hosts, ", ")
	tools, harm := "", "have the tools called"
	switch {
	case f.c.MCP != "":
		tools = "--mcp"
	case f.c.Server.Web.Search != nil:
		tools = "--web-search"
	case f.c.Server.Web.Read != nil:
		tools = "--web-fetch"
	case len(f.c.OwnTools) > 0:
		tools = "--tools"
	case f.c.Server.Proxy:
		tools, harm = "--ui-mcp-proxy", "reach what only this machine can"
	}
	if keys.Open() && !host.Local(hosts) {
		if tools != "" {
			return usage.Errorf("%s: whoever reaches %s could %s, since there is no API key; "+
				"give one with --api-key or --api-key-file, or --host 127.0.0.1", tools, at, harm)
		}
		if a.RequireKey {
			return usage.Errorf("--require-key: %s can be reached by others and there is no API key; "+
				"give one with --api-key or --api-key-file", at)
		}
		f.log.Warn().Strs("host", hosts).Msg("ANYBODY WHO REACHES THIS ADDRESS CAN USE THE MODEL: there is no API key; " +
			"give one with --api-key-file, or --host 127.0.0.1")
	}
	if tools != "" && keys.Open() && slices.Contains(a.AllowedHosts, "*") {
		return usage.Errorf("%s: with --allowed-hosts * and no API key, any page could %s under a name "+
			"of its own; give a key with --api-key or --api-key-file, or name the hosts", tools, harm)
	}
	if weak := keys.Weak(); weak != nil {
		if !host.Local(hosts) {
			return usage.Errorf("%w, from --api-key or --api-key-file: others reach %s, and can guess it", weak, at)
		}
		f.log.Warn().Msg(weak.Error() + " before others can reach the server")
	}
	return nil
}

// followEvery is the time between two looks at the file of the keys.
const followEvery = time.Second

// followKeys has the keys be those of their file, when it changes.
func (f *Fleet) followKeys(ctx context.Context) {
	keys := f.c.Access.keys()
	keys.Follow(ctx, followEvery, !host.Local(f.c.Address.Hosts), func(err error) {
		if err != nil {
			f.log.Error().Err(err).Str("file", keys.File()).Msg("the API keys stay as they were")
			return
		}
		f.log.Info().Str("file", keys.File()).Int("keys", keys.Len()).Msg("the API keys were read again")
		if keys.LostRoles() {
			f.log.Warn().Str("file", keys.File()).Msg("no API key has a role any more: all are users, and the next start makes all admins")
		}
		if weak := keys.Weak(); weak != nil {
			f.log.Warn().Msg(weak.Error() + " before others can reach the server")
		}
		f.tellUnknown()
		if f.c.Server.Batches != nil {
			f.c.Server.Batches.Share(keys.Several())
		}
	})
}

// tellUnknown warns of names of models that keys may ask and nothing has: such a key is refused all it asks.
func (f *Fleet) tellUnknown() {
	var names []string
	for _, k := range f.c.Access.keys().All() {
		names = append(names, k.Models...)
	}
	slices.Sort(names)
	const most = 20
	if unknown := f.api.Unknown(slices.Compact(names)); len(unknown) > 0 {
		f.log.Warn().Strs("models", unknown[:min(len(unknown), most)]).Int("names", len(unknown)).
			Msg("API keys may ask models of names that nothing has now")
	}
}

// called returns what an owner is called: the name of its key, or the beginning of its hash; all where there are no keys.
func (a *Access) called(owner string) string {
	if k, ok := a.keys().Named(owner); ok {
		return k.Called()
	}
	return cmp.Or(owner, "all")
}

// counted returns the keys and subjects whose requests are counted. Without keys all clients are as one.
func (a *Access) counted() []quota.Key { return a.accounts((*guard.Keys).All) }

// totals returns the keys and tenants that have counters.
func (a *Access) totals() []quota.Key { return a.accounts((*guard.Keys).Totals) }

func (a *Access) accounts(of func(*guard.Keys) []guard.Key) (all []quota.Key) {
	if a.keys().Open() {
		return []quota.Key{{Admin: true, Account: a.everybody}}
	}
	for _, k := range of(a.keys()) {
		all = append(all, quota.Key{ID: k.Name, Name: k.Label, Tenant: k.Tenant, Admin: k.Admin, Account: k.Account})
	}
	return all
}

// open reports whether a request comes from the network to a server without keys.
func (a *Access) open(r *http.Request) bool { return a.keys().Open() && host.Network(r) }

// caller returns whose a request is.
func (a *Access) caller(c *gin.Context) server.Caller {
	keys := a.keys()
	key := guard.KeyOf(c, keys)
	caller := server.Caller{Flow: key.Name, Weight: key.Weight, Admin: key.Admin, Priority: key.Priority,
		Models: key.Models}
	caller.Account = a.everybody
	if !keys.Open() {
		caller.Owner, caller.Account = key.Name, key.Account
	}
	return caller
}

// account returns what counts the requests of an owner; false: its key was removed.
func (a *Access) account(owner string) (*quota.Account, bool) {
	if a.keys().Open() {
		return a.everybody, true
	}
	k, ok := a.keys().Named(owner)
	return k.Account, ok
}

// known reports whether a request is of an authorized client.
func known(c *gin.Context) bool { return c.GetString(guard.Client) != "" }

// mostBody returns the most bytes that a request's body may have.
func mostBody(c *gin.Context) int64 { return c.GetInt64(guard.MostBody) }
