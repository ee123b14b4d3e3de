package picture

import (
	"bytes"
	"encoding/binary"
)

// orientation returns how a picture is stored, 1 to 8 by the tag Orientation of Exif; 1, upright, if nothing says it.
func orientation(format string, data []byte) int {
	switch format {
	case "JPEG":
		return ofJPEG(data)
	case "PNG":
		return ofTIFF(chunk(data[8:], binary.BigEndian, true, "eXIf"))
	case "WebP":
		return ofTIFF(bytes.TrimPrefix(chunk(data[12:], binary.LittleEndian, false, "EXIF"), []byte("Exif\x00\x00")))
	}
	return 1
}

// ofJPEG reads the segments in front of the first scan.
func ofJPEG(data []byte) int {
	of := 1
	segments(data, func(marker byte, body []byte) bool {
		if tiff, ok := bytes.CutPrefix(body, []byte("Exif\x00\x00")); ok && marker == 0xe1 {
			of = ofTIFF(tiff)
			return false
		}
		return marker != 0xda
	})
	return of
}

// countScans returns how many scans a JPEG has.
func countScans(data []byte) (n int) {
	segments(data, func(marker byte, _ []byte) bool {
		if marker == 0xda {
			n++
		}
		return true
	})
	return n
}

// segments calls f with each segment of a JPEG that has a length, until it returns false. Between them is
// entropy-coded data, in which 0xff is followed by 0 or is a marker without a length.
func segments(data []byte, f func(marker byte, body []byte) bool) {
	for {
		at := bytes.IndexByte(data, 0xff)
		if at < 0 || at+1 >= len(data) {
			return
		}
		marker := data[at+1]
		if marker == 0xff { // fill
			data = data[at+1:]
			continue
		}
		data = data[at+2:]
		if marker == 0 || marker == 1 || marker >= 0xd0 && marker <= 0xd8 {
			continue
		}
		if marker == 0xd9 || len(data) < 2 {
			return
		}
		n := int(binary.BigEndian.Uint16(data))
		if n < 2 || n > len(data) || !f(marker, data[2:n]) {
			return
		}
		data = data[n:]
	}
}

// chunk returns the body of the first chunk of a kind: in PNG a length, a kind, a body and a checksum; in RIFF a kind,
// a length and a body of even length.
func chunk(data []byte, order binary.ByteOrder, isPNG bool, kind string) []byte {
	for len(data) >= 8 {
		n, is := order.Uint32(data[4:]), string(data[:4])
		after := uint64(n) + uint64(n&1)
		if isPNG {
			n, is = order.Uint32(data), string(data[4:8])
			after = uint64(n) + 4
		}
		data = data[8:]
		if uint64(n) > uint64(len(data)) {
			return nil
		}
		if is == kind {
			return data[:n]
		}
		data = data[min(after, uint64(len(data))):]
	}
	return nil
}

// ofTIFF returns the orientation in a TIFF header with its first directory (Exif 2.3, 4.6.2).
func ofTIFF(tiff []byte) int {
	const tag, short = 0x0112, 3
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(tiff, []byte("II*\x00")):
		order = binary.LittleEndian
	case bytes.HasPrefix(tiff, []byte("MM\x00*")):
		order = binary.BigEndian
	default:
		return 1
	}
	if len(tiff) < 8 {
		return 1
	}
	at := uint64(order.Uint32(tiff[4:]))
	if at+2 > uint64(len(tiff)) {
		return 1
	}
	entries := int(order.Uint16(tiff[at:]))
	for list := tiff[at+2:]; entries > 0 && len(list) >= 12; entries, list = entries-1, list[12:] {
		if order.Uint16(list) != tag || order.Uint16(list[2:]) != short {
			continue
		}
		if v := order.Uint16(list[8:]); v >= 1 && v <= 8 {
			return int(v)
		}
		return 1
	}
	return 1
}

// turned returns the picture upright, of one that is stored by an orientation: 2 to 4 are mirrored, upside down and both,
// 5 to 8 have their rows as columns.
func (p *RGB) turned(orientation int) *RGB {
	if orientation <= 1 {
		return p
	}
	o := orientation - 1
	across := orientation >= 5 // rows are columns
	left := o == 1 || o == 2 || o == 5 || o == 6
	up := o == 2 || o == 3 || o == 6 || o == 7
	q := &RGB{Width: p.Width, Height: p.Height, Pix: make([]byte, len(p.Pix))}
	if across {
		q.Width, q.Height = p.Height, p.Width
	}
	for y := range q.Height {
		for x := range q.Width {
			fx, fy := x, y
			if left {
				fx = q.Width - 1 - x
			}
			if up {
				fy = q.Height - 1 - y
			}
			if across {
				fx, fy = fy, fx
			}
			copy(q.Pix[3*(y*q.Width+x):][:3], p.Pix[3*(fy*p.Width+fx):])
		}
	}
	return q
}
