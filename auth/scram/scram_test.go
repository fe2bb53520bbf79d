package scram

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
)

type users map[string]*Credential

func (u users) Credential(name string) *Credential { return u[name] }

func decode64(t *testing.T, text string) []byte {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestExamplesOfTheRFCs: RFC 5802 section 5 and RFC 7677 section 3.
func TestExamplesOfTheRFCs(t *testing.T) {
	t.Parallel()
	for _, example := range []struct {
		hash                                        hashFunction
		salt, serverNonce, clientFirst, serverFirst string
		clientFinal, serverFinal                    string
	}{{
		sha1.New, "QSXCR+Q6sek8bf92", "3rfcNHYJY1ZVvWVs7j", "n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
		"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
		"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=", "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
	}, {
		sha256.New, "W22ZaJ0SNY7soEsUEjb6gQ==", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
		"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
		"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
		"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
	}} {
		credential, err := derive(example.hash, "pencil", decode64(t, example.salt), 4096)
		if err != nil {
			t.Fatal(err)
		}
		e := NewExchange(users{"user": credential}, NewSecret())
		e.hash, e.nonce = example.hash, func() string { return example.serverNonce }
		for _, step := range [][2]string{{example.clientFirst, example.serverFirst}, {example.clientFinal, example.serverFinal}} {
			if e.User() != "" {
				t.Error("a user before the end")
			}
			answer, err := e.Step([]byte(step[0]))
			if err != nil || string(answer) != step[1] {
				t.Fatalf("%s: %q, %v", step[0], answer, err)
			}
		}
		if e.User() != "user" {
			t.Errorf("user %q", e.User())
		}
	}
}

// client is a client of SCRAM-SHA-512 for one login.
type client struct{ gs2, name, password, nonce string }

func (c client) first() string { return c.gs2 + "n=" + c.name + ",r=" + c.nonce }

func (c client) final(t *testing.T, serverFirst string) string {
	t.Helper()
	attributes := strings.Split(serverFirst, ",")
	salt := decode64(t, strings.TrimPrefix(attributes[1], "s="))
	own, err := Derive(c.password, salt, 4096)
	if err != nil {
		t.Fatal(err)
	}
	without := "c=" + base64.StdEncoding.EncodeToString([]byte(c.gs2)) + "," + attributes[0]
	signature := mac(NewExchange(nil, nil).hash, own.StoredKey, strings.TrimPrefix(c.first(), c.gs2)+","+serverFirst+","+without)
	key := clientKey(t, c.password, salt)
	for i := range key {
		key[i] ^= signature[i]
	}
	return without + ",p=" + base64.StdEncoding.EncodeToString(key)
}

func clientKey(t *testing.T, password string, salt []byte) []byte {
	t.Helper()
	salted := pbkdf2SHA512(password, salt, 4096)
	return mac(NewExchange(nil, nil).hash, salted, "Client Key")
}

// pbkdf2SHA512 by RFC 8018's definition, one block: independent of crypto/pbkdf2.
func pbkdf2SHA512(password string, salt []byte, iterations int) []byte {
	h := hmac.New(NewExchange(nil, nil).hash, []byte(password))
	h.Write(salt)
	h.Write([]byte{0, 0, 0, 1})
	u := h.Sum(nil)
	out := bytes.Clone(u)
	for range iterations - 1 {
		h.Reset()
		h.Write(u)
		u = h.Sum(nil)
		for i := range out {
			out[i] ^= u[i]
		}
	}
	return out
}

func TestNamesAndPasswords(t *testing.T) {
	t.Parallel()
	directory := users{}
	for _, name := range []string{"plain", "CN=app,OU=x", "a=2Cb", "with space", "müller"} {
		credential, err := Derive("pass="+name+",=2C", []byte("salt-of-"+name), 4096)
		if err != nil {
			t.Fatal(err)
		}
		directory[name] = credential
	}
	escape := strings.NewReplacer("=", "=3D", ",", "=2C").Replace
	login := func(gs2, encoded, password string) (string, error) {
		c := client{gs2: gs2, name: encoded, password: password, nonce: "abc"}
		e := NewExchange(directory, NewSecret())
		answer, err := e.Step([]byte(c.first()))
		if err != nil {
			return "", err
		}
		if _, err = e.Step([]byte(c.final(t, string(answer)))); err != nil {
			return "", err
		}
		if _, again := e.Step([]byte("c=biws")); !errors.Is(again, ErrFailed) {
			t.Error("a message after the end is taken")
		}
		return e.User(), nil
	}
	for name := range directory {
		for _, gs2 := range []string{"n,,", "y,,", "n,a=" + escape(name) + ","} {
			if user, err := login(gs2, escape(name), "pass="+name+",=2C"); err != nil || user != name {
				t.Errorf("%q with %q: %q, %v", name, gs2, user, err)
			}
		}
		if user, err := login("n,,", escape(name), "wrong"); !errors.Is(err, ErrFailed) || user != "" {
			t.Errorf("%q with a wrong password: %q, %v", name, user, err)
		}
	}
	if _, err := login("n,,", "nobody", "pass"); !errors.Is(err, ErrFailed) {
		t.Error(err)
	}
	if _, err := login("n,a=other,", "plain", "pass=plain,=2C"); !errors.Is(err, ErrFailed) {
		t.Error("another authorization id:", err)
	}
}

func TestMalformedMessages(t *testing.T) {
	t.Parallel()
	credential, err := Derive("pencil", []byte("salt"), 4096)
	if err != nil {
		t.Fatal(err)
	}
	directory := users{"user": credential}
	for _, first := range []string{
		"", "n", "n,,", "n,,n=user", "n,,n=,r=x", "n,,r=x,n=user", "n,,n=us=2Xer,r=x", "n,,n=us=,r=x", "n,,n=user,r=", "n,,n=user,r=a b", "n,,n=user,r=ä",
		"p=tls-unique,,n=user,r=x", "x,,n=user,r=x", "n,user,n=user,r=x", "n,,m=ext,n=user,r=x", "n,,n=user,r=x,ext", "n,,n=user,r=x,=v", "n,,n=us\x00er,r=x", "n,,n=\xff,r=x",
	} {
		e := NewExchange(directory, NewSecret())
		if answer, err := e.Step([]byte(first)); !errors.Is(err, ErrFailed) || answer != nil || e.User() != "" {
			t.Errorf("%q: %q, %v", first, answer, err)
		}
	}
	for _, change := range []func(string) string{
		func(string) string { return "" },
		func(string) string { return "c=biws" },
		func(s string) string { return s[:strings.LastIndex(s, ",p=")] },
		func(s string) string { return s[:len(s)-4] },
		func(s string) string { return s + "=" },
		func(s string) string { return strings.Replace(s, "c=biws", "c=eSws", 1) }, // y,,
		func(s string) string { return strings.Replace(s, "c=biws,", "", 1) },
		func(s string) string { return strings.Replace(s, "r=abc", "r=abd", 1) },
	} {
		c := client{gs2: "n,,", name: "user", password: "pencil", nonce: "abc"}
		e := NewExchange(directory, NewSecret())
		answer, err := e.Step([]byte(c.first()))
		if err != nil {
			t.Fatal(err)
		}
		final := change(c.final(t, string(answer)))
		if answer, err := e.Step([]byte(final)); !errors.Is(err, ErrFailed) || answer != nil || e.User() != "" {
			t.Errorf("%q: %q, %v", final, answer, err)
		}
	}
}

// TestUnknownUsersLookKnown: the same salt each time, another one for another name
// and for another broker.
func TestUnknownUsersLookKnown(t *testing.T) {
	t.Parallel()
	secret := NewSecret()
	salt := func(secret *Secret, name string) string {
		answer, err := NewExchange(users{}, secret).Step([]byte("n,,n=" + name + ",r=x"))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(answer), ",s=")
		s, iterations, _ := strings.Cut(rest, ",i=")
		if iterations != "4096" || len(decode64(t, s)) != 16 {
			t.Errorf("%q", answer)
		}
		return s
	}
	if a := salt(secret, "a"); a != salt(secret, "a") || a == salt(secret, "b") || a == salt(NewSecret(), "a") {
		t.Error("the salts tell that the users do not exist")
	}
}

func TestCredential(t *testing.T) {
	t.Parallel()
	c, err := Derive("pencil", []byte("salt"), 4096)
	if err != nil {
		t.Fatal(err)
	}
	fromSalted := FromSaltedPassword(pbkdf2SHA512("pencil", []byte("salt"), 4096), []byte("salt"), 4096)
	if !bytes.Equal(c.StoredKey, fromSalted.StoredKey) || !bytes.Equal(c.ServerKey, fromSalted.ServerKey) || !c.Matches("pencil") || c.Matches("pen") {
		t.Error("the ways to a credential differ")
	}
	for _, bad := range []Credential{{}, {Salt: c.Salt, StoredKey: c.StoredKey, ServerKey: c.ServerKey, Iterations: 4095}, {Salt: c.Salt, StoredKey: c.StoredKey[:63], ServerKey: c.ServerKey, Iterations: 4096}} {
		if bad.Validate() == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

// FuzzExchange: whatever a client sends, nothing panics and nobody logs in.
func FuzzExchange(f *testing.F) {
	for _, seed := range [][2]string{
		{"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL", "c=biws,r=fyko+d2lbbFgONRv9qkxdawL,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="},
		{"y,a=a=2Cb,n=a=2Cb,r=x,tokenauth=true", "c=biws,r=x,e=v,p="}, {"p=tls-unique,,", ",p="}, {"n,,n==,r=", "c=,r=,p=AAAA"}, {"\xff,,,", ",,,,"},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	credential, err := Derive("pencil", []byte("salt"), 4096)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, first, final []byte) {
		e := NewExchange(users{"user": credential, "a,b": credential}, NewSecret())
		if _, err := e.Step(first); err != nil && !errors.Is(err, ErrFailed) {
			t.Error(err)
		}
		if answer, err := e.Step(final); err == nil || answer != nil || e.User() != "" {
			t.Errorf("%q and %q log in", first, final)
		}
	})
}
