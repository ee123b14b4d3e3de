package jsonschema

import (
	"maps"
	"slices"
	"sync"

	"github.com/quern-llm/quern/go/grammar"
	"github.com/quern-llm/quern/go/grammar/regex"
)

const (
	dateFormat = `(?:\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))` +
		`|(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)`
	timeFormat = `(?:(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,16})?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)|23:59:60(?:\.\d{1,16})?(?:[Zz]|[+-]00:00))`

	octet = `(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`
	ipv4  = octet + `(?:\.` + octet + `){3}`
	h16   = `[0-9A-Fa-f]{1,4}`
	ls32  = `(?:` + h16 + `:` + h16 + `|` + ipv4 + `)`
	alnum = `[A-Za-z0-9]`
	label = alnum + `(?:` + alnum + `|[A-Za-z0-9-](?:` + alnum + `(?:[A-Za-z0-9-]{0,59}` + alnum + `)?|-` + alnum + `(?:[A-Za-z0-9-]{0,58}` + alnum + `)?))?`
	small = `(?:` + alnum + `(?:[A-Za-z0-9]|[A-Za-z0-9-]` + alnum + `(?:[A-Za-z0-9-]{0,21}` + alnum + `)?)?)`
	// 253 characters at most: three labels of any length, or ten of 25.
	domain = `(?:` + label + `(?:\.` + label + `){0,2}|` + small + `(?:\.` + small + `){3,9})`

	unreserved = `[A-Za-z0-9\-._~]`
	encoded    = `%[0-9A-Fa-f]{2}`
	pchar      = `(?:[A-Za-z0-9\-._~!$&'()*+,;=:@]|` + encoded + `)`
	regName    = `(?:[A-Za-z0-9\-._~!$&'()*+,;=]|` + encoded + `)*`
	authority  = `(?:(?:[A-Za-z0-9\-._~!$&'()*+,;=:]|` + encoded + `)*@)?(?:` + regName + `|\[(?:` + ipv6 + `)\])(?::\d*)?`
	tail       = `(?:\?(?:` + pchar + `|[/?])*)?(?:#(?:` + pchar + `|[/?])*)?`
	absolute   = `/(?:` + pchar + `+(?:/` + pchar + `*)*)?`
	uri        = `[A-Za-z][A-Za-z0-9+.\-]*:(?://` + authority + `(?:/` + pchar + `*)*|` + absolute + `|` + pchar + `+(?:/` + pchar + `*)*|)` + tail
	relative   = `(?://` + authority + `(?:/` + pchar + `*)*|` + absolute + `|(?:[A-Za-z0-9\-._~!$&'()*+,;=@]|` + encoded + `)+(?:/` + pchar + `*)*|)` + tail

	ipv6 = `(?:` + h16 + `:){6}` + ls32 +
		`|::(?:` + h16 + `:){5}` + ls32 +
		`|(?:` + h16 + `)?::(?:` + h16 + `:){4}` + ls32 +
		`|(?:(?:` + h16 + `:){0,1}` + h16 + `)?::(?:` + h16 + `:){3}` + ls32 +
		`|(?:(?:` + h16 + `:){0,2}` + h16 + `)?::(?:` + h16 + `:){2}` + ls32 +
		`|(?:(?:` + h16 + `:){0,3}` + h16 + `)?::` + h16 + `:` + ls32 +
		`|(?:(?:` + h16 + `:){0,4}` + h16 + `)?::` + ls32 +
		`|(?:(?:` + h16 + `:){0,5}` + h16 + `)?::` + h16 +
		`|(?:(?:` + h16 + `:){0,6}` + h16 + `)?::`

	varName  = `(?:\w|` + encoded + `)(?:\.?(?:\w|` + encoded + `))*`
	varSpec  = varName + `(?::[1-9]\d{0,3}|\*)?`
	template = `(?:[!#$&-;=?-Z\[\]_a-z~\u{A0}-\u{10FFFF}]|` + encoded + `|\{[+#./;?&]?` + varSpec + `(?:,` + varSpec + `)*\})*`

	days     = `\d+D`
	duration = `P(?:(?:` + days + `|\d+M(?:` + days + `)?|\d+Y(?:\d+M(?:` + days + `)?)?)(?:T(?:` + clock + `))?|T(?:` + clock + `)|\d+W)`
	clock    = `\d+S|\d+M(?:\d+S)?|\d+H(?:\d+M(?:\d+S)?)?`
	pointer  = `(?:/(?:[^/~]|~[01])*)*`
	atext    = `[A-Za-z0-9!#$%&'*+/=?^_{|}~\x60-]`
	local    = atext + `+(?:\.` + atext + `+)*`
)

// Not all regular expressions are a regular language: these are of those whose groups nest twice at most, without
// references, look-around and two bounds of a repetition.
const (
	reEscape = `\\(?:[dDwWsSbBnrtfv0]|[\^$\\.*+?()\[\]{}|/])`
	reClass  = `\[\^?(?:[^\\\[\]\-]|\\[dDwWsSnrtfv\^$\\.*+?()\[\]{}|/\-]|a-z|A-Z|0-9)+\]`
	reTimes  = `(?:(?:[*+?]|\{\d{1,4},?\})\??)?`
	reInner  = `\((?:\?:)?(?:(?:` + reAtom + `)` + reTimes + `|\||[\^$])*\)`
	reOuter  = `\((?:\?:)?(?:(?:` + reAtom + `|` + reInner + `)` + reTimes + `|\||[\^$])*\)`
	reAtom   = `[^\\()\[\]{}*+?|\^$\r\n]|` + reEscape + `|` + reClass
	reWhole  = `(?:(?:` + reAtom + `|` + reOuter + `)` + reTimes + `|\||[\^$])*`
)

// formats are the formats that are regular, or a regular part of others. Dates are of the calendar, leap years too. Of
// those that have more than one spelling it is the one that people write: no quoted local parts and addresses as domains
// in email, no names in Punycode, no leap seconds but in UTC. Of international names and addresses those in ASCII are
// written, since which others are valid changes with Unicode.
var formats = map[string]string{
	"date":                  dateFormat,
	"time":                  timeFormat,
	"date-time":             dateFormat + `[Tt]` + timeFormat,
	"duration":              duration,
	"email":                 `@` + domain, // after a local part
	"idn-email":             `@` + domain,
	"idn-hostname":          domain,
	"iri":                   uri,
	"iri-reference":         uri + `|` + relative,
	"regex":                 reWhole,
	"hostname":              domain,
	"ipv4":                  ipv4,
	"ipv6":                  ipv6,
	"uuid":                  `[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}`,
	"uri":                   uri,
	"uri-reference":         uri + `|` + relative,
	"uri-template":          template,
	"json-pointer":          pointer,
	"relative-json-pointer": `(?:0|[1-9]\d*)(?:#|` + pointer + `)`,
}

// Formats returns the names of the formats that are decided, in order.
func Formats() []string { return slices.Sorted(maps.Keys(formats)) }

var formatExprs sync.Map // name: grammar.Expr

// format returns the texts of a format; nil where it is unknown, which says nothing.
func format(name string) (grammar.Expr, error) {
	pattern, ok := formats[name]
	if !ok {
		return nil, nil
	}
	if e, ok := formatExprs.Load(name); ok {
		return e.(grammar.Expr), nil
	}
	e, err := regex.Full(pattern, 0)
	if err != nil {
		return nil, err
	}
	if name == "email" || name == "idn-email" {
		at, err := regex.Full(local, 0)
		if err != nil {
			return nil, err
		}
		e = grammar.Seq{grammar.And{grammar.Repeat{Expr: grammar.Any, Min: 1, Max: 64}, at}, e}
	}
	e = grammar.And{e} // an intersection of one is a minimal automaton, whose masks are found faster
	formatExprs.Store(name, e)
	return e, nil
}
