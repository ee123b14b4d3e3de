package chat

import (
	"strings"
	"time"
)

// layouts maps the conversions of strftime to Go time layouts.
var layouts = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'h': "Jan", 'B': "January", 'd': "02", 'e': "_2", 'm': "01",
	'y': "06", 'Y': "2006", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'f': "000000", 'p': "PM",
	'j': "002", 'z': "-0700", 'Z': "MST", 'F': "2006-01-02", 'T': "15:04:05", 'R': "15:04", 'D': "01/02/06",
	'c': "Mon Jan _2 15:04:05 2006", 'x': "01/02/06", 'X': "15:04:05",
}

// strftime formats a time as C and Python do in the C locale. Unknown conversions
// are copied unchanged.
func strftime(t time.Time, format string) string {
	var b strings.Builder
	for format != "" {
		i := strings.IndexByte(format, '%')
		if i < 0 || i+1 == len(format) {
			break
		}
		b.WriteString(format[:i])
		letter := format[i+1]
		bare := letter == '-' && i+2 < len(format) // without leading zeros
		if bare {
			letter = format[i+2]
			format = format[1:]
		}
		format = format[i+2:]
		layout, ok := layouts[letter]
		switch {
		case letter == '%':
			b.WriteByte('%')
		case letter == 'f':
			b.WriteString(t.Format(".000000")[1:])
		case !ok:
			b.WriteByte('%')
			b.WriteByte(letter)
		case bare:
			s := strings.TrimLeft(t.Format(layout), "0 ")
			if s == "" {
				s = "0"
			}
			b.WriteString(s)
		default:
			b.WriteString(t.Format(layout))
		}
	}
	return b.String() + format
}
