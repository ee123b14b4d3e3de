package pdf

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/md5"
	"crypto/rc4"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
)

// A lock decrypts files that may be read without a password: such as those that only say that they are not to be printed.
type lock struct {
	key            []byte
	whole          bool // the key is that of all objects
	ofText, ofData way
}

// A way is how something is encrypted.
type way int

const (
	clearly way = iota
	byRC4
	byAES
)

// pad is what passwords are filled up with.
const pad = "(\xbfN^Nu\x8aAd\x00NV\xff\xfa\x01\x08..\x00\xb6\xd0h>\x80/\x0c\xa9\xfedSiz"

// unlock returns the lock of the file for who has no password.
func (f *file) unlock() (*lock, error) {
	d := f.dict(f.locked)
	str := func(n name) []byte { s, _ := f.get(d[n]).(text); return []byte(s) }
	if filter, _ := f.get(d["Filter"]).(name); filter != "Standard" {
		return nil, ErrHandler
	}
	version, revision := f.number(d["V"], 0), int(f.number(d["R"], 0))
	owner, user := str("O"), str("U")
	l := &lock{ofText: byRC4, ofData: byRC4}
	switch {
	case (version == 1 || version == 2) && (revision == 2 || revision == 3):
	case version == 4 && revision == 4, version == 5 && (revision == 5 || revision == 6):
		l.ofText, l.ofData = f.wayOf(d, "StrF"), f.wayOf(d, "StmF")
	default:
		return nil, ErrHandler
	}
	if version == 5 {
		l.whole = true
		return l, l.open256(user, str("UE"), revision)
	}
	if len(owner) < 32 || len(user) < 32 {
		return nil, Error("damaged: its encryption has no keys")
	}
	n := int(f.number(d["Length"], 40)) / 8
	switch {
	case version == 1:
		n = 5
	case version == 4:
		n = 16
	}
	n = max(5, min(n, 16))
	h := md5.New()
	h.Write([]byte(pad))
	h.Write(owner[:32])
	h.Write(binary.LittleEndian.AppendUint32(nil, uint32(int64(f.number(d["P"], 0)))))
	h.Write(f.id)
	if open, ok := f.get(d["EncryptMetadata"]).(bool); ok && !open && revision >= 4 {
		h.Write([]byte{255, 255, 255, 255})
	}
	l.key = h.Sum(nil)
	for range 50 * min(1, max(0, revision-2)) {
		sum := md5.Sum(l.key[:n])
		l.key = sum[:]
	}
	l.key = l.key[:n]
	check := []byte(pad)
	if revision >= 3 {
		sum := md5.Sum(append([]byte(pad), f.id...))
		check = sum[:]
	}
	byKey(l.key, check)
	for i := 1; revision >= 3 && i < 20; i++ {
		key := bytes.Clone(l.key)
		for k := range key {
			key[k] ^= byte(i)
		}
		byKey(key, check)
	}
	if !bytes.Equal(check, user[:len(check)]) {
		return nil, ErrPassword
	}
	return l, nil
}

// wayOf is how strings or streams are encrypted.
func (f *file) wayOf(d dict, which name) way {
	filter, _ := f.get(d[which]).(name)
	switch f.get(f.dict(f.dict(d["CF"])[filter])["CFM"]) {
	case name("V2"):
		return byRC4
	case name("AESV2"), name("AESV3"):
		return byAES
	}
	return clearly
}

// open256 finds the key of 256 bits.
func (l *lock) open256(user, locked []byte, revision int) error {
	if len(user) < 48 || len(locked) < 32 {
		return Error("damaged: its encryption has no keys")
	}
	hash := func(salt []byte) []byte {
		if revision == 5 {
			sum := sha256.Sum256(salt)
			return sum[:]
		}
		return hardened(salt)
	}
	if !bytes.Equal(hash(user[32:40]), user[:32]) {
		return ErrPassword
	}
	block, err := aes.NewCipher(hash(user[40:48]))
	if err != nil {
		return err
	}
	l.key = make([]byte, 32)
	cipher.NewCBCDecrypter(block, make([]byte, aes.BlockSize)).CryptBlocks(l.key, locked[:32])
	return nil
}

// hardened is the hash of the empty password with a salt (ISO 32000-2, algorithm 2.B).
func hardened(salt []byte) []byte {
	first := sha256.Sum256(salt)
	k := first[:]
	for i := 0; ; i++ {
		e := bytes.Repeat(k, 64)
		block, err := aes.NewCipher(k[:16])
		if err != nil {
			return nil
		}
		cipher.NewCBCEncrypter(block, k[16:32]).CryptBlocks(e, e)
		sum := 0
		for _, c := range e[:16] {
			sum += int(c)
		}
		switch sum % 3 {
		case 0:
			h := sha256.Sum256(e)
			k = h[:]
		case 1:
			h := sha512.Sum384(e)
			k = h[:]
		default:
			h := sha512.Sum512(e)
			k = h[:]
		}
		if i >= 63 && int(e[len(e)-1]) <= i-31 {
			return k[:32]
		}
	}
}

// byKey encrypts or decrypts with RC4.
func byKey(key, data []byte) {
	if c, err := rc4.NewCipher(key); err == nil {
		c.XORKeyStream(data, data)
	}
}

// open decrypts what is of an object.
func (l *lock) open(data []byte, of ref, how way) []byte {
	if how == clearly {
		return data
	}
	key := l.key
	if !l.whole {
		salt := []byte{byte(of.num), byte(of.num >> 8), byte(of.num >> 16), byte(of.gen), byte(of.gen >> 8)}
		if how == byAES {
			salt = append(salt, "sAlT"...)
		}
		sum := md5.Sum(append(bytes.Clone(key), salt...))
		key = sum[:min(len(key)+5, 16)]
	}
	if how == byRC4 {
		out := bytes.Clone(data)
		byKey(key, out)
		return out
	}
	n := len(data) / aes.BlockSize * aes.BlockSize
	block, err := aes.NewCipher(key)
	if n < 2*aes.BlockSize || err != nil {
		return nil
	}
	out := make([]byte, n-aes.BlockSize)
	cipher.NewCBCDecrypter(block, data[:aes.BlockSize]).CryptBlocks(out, data[aes.BlockSize:n])
	if fill := int(out[len(out)-1]); fill >= 1 && fill <= aes.BlockSize {
		out = out[:len(out)-fill]
	}
	return out
}

// stream returns the bytes of a stream in the clear.
func (l *lock) stream(s *stream) []byte {
	if s.dict["Type"] == name("XRef") {
		return s.raw
	}
	return l.open(s.raw, s.of, l.ofData)
}

// texts returns an object with its strings in the clear.
func (l *lock) texts(v any, of ref) any {
	switch v := v.(type) {
	case text:
		return text(l.open([]byte(v), of, l.ofText))
	case array:
		for i := range v {
			v[i] = l.texts(v[i], of)
		}
	case dict:
		for k := range v {
			v[k] = l.texts(v[k], of)
		}
	case *stream:
		l.texts(v.dict, of)
	}
	return v
}
