package visitorpass

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"hash"
	"slices"
	"sync"
	"time"
)

const (
	// maxDays is the number of days whose secrets are kept: passes of two days are valid at a time, and the secret of
	// the next day is known before that day begins.
	maxDays = 3
	// dayLength is the length of a day, and earlyBy the time before it at which its secret is needed, so that all
	// limiters know the secret when the day begins.
	dayLength, earlyBy = 24 * time.Hour, time.Hour
)

// Secret signs the passes of one day.
type Secret [32]byte

// String hides the secret from logs.
func (Secret) String() string { return "(secret)" }

// Encode returns the secret as text for a store.
func (s Secret) Encode() string { return base64.StdEncoding.EncodeToString(s[:]) }

// ParseSecret reads a secret that Encode has written. Its error does not quote the text.
func ParseSecret(text string) (s Secret, err error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	copy(s[:], raw)
	if err != nil || len(raw) != len(s) || s == (Secret{}) {
		return Secret{}, errors.New("visitorpass: not a secret: want 32 bytes in base64, not all of them 0")
	}
	return s, nil
}

// DaySecret is the secret of the day whose number Day returns. A zero Secret means that the secret is not known.
type DaySecret struct {
	Day    int64
	Secret Secret
}

// Day returns the number of the day of a time, which is the day whose secret signs the passes issued at that time.
func Day(t time.Time) int64 { return t.Unix() / int64(dayLength/time.Second) }

// EndOfPasses returns the time at which the last pass of a day stops being recognised.
func EndOfPasses(number int64) time.Time {
	return time.Unix((number+2)*int64(dayLength/time.Second), 0)
}

// Stats describes the secrets of a process.
type Stats struct {
	NoSecret bool `metric:"hotparam_pass_no_secret" help:"1 while a class is proved by passes and today's secret is not known: no pass is issued."`
}

// day holds the signers of one day, the newest first. It is immutable.
type day struct {
	number  int64
	signers []*signer // one or two
}

// SetSecret sets the secret that signs the passes of a day, whose number Day returns. The day's former secret is still
// accepted, so that passes survive if the store of secrets loses its data. Secrets of old days are forgotten.
func (p *Passes) SetSecret(number int64, s Secret) {
	p.mu.Lock()
	defer p.mu.Unlock()
	signers := p.signersOf(number)
	if len(signers) > 0 && signers[0].secret == s {
		return
	}
	changed := day{number: number, signers: append([]*signer{newSigner(s)}, signers[:min(len(signers), 1)]...)}
	days := append([]day{changed}, slices.DeleteFunc(slices.Clone(*p.days.Load()), func(d day) bool {
		return d.number == number
	})...)
	slices.SortFunc(days, func(a, b day) int { return cmp.Compare(b.number, a.number) })
	days = days[:min(len(days), maxDays)]
	p.days.Store(&days)
}

// HasSecret reports whether passes can be issued on a day.
func (p *Passes) HasSecret(number int64) bool { return p != nil && len(p.signersOf(number)) > 0 }

func (p *Passes) signersOf(number int64) []*signer {
	for _, d := range *p.days.Load() {
		if d.number == number {
			return d.signers
		}
	}
	return nil
}

// NeededSecrets returns the days whose secrets are needed at a time, with the secrets that sign: yesterday, whose
// passes are still recognised, today, and tomorrow in the last hour before it.
func (p *Passes) NeededSecrets(now time.Time) (needed []DaySecret) {
	for number := Day(now) - 1; number <= Day(now.Add(earlyBy)); number++ {
		d := DaySecret{Day: number}
		if signers := p.signersOf(number); len(signers) > 0 {
			d.Secret = signers[0].secret
		}
		needed = append(needed, d)
	}
	return needed
}

// signer signs with one secret.
type signer struct {
	secret Secret
	states sync.Pool // of *signerState
}

// signerState holds the memory of one signature, because a hash.Hash lets its arguments escape.
type signerState struct {
	mac     hash.Hash
	message []byte
	sum     [sha256.Size]byte
}

func newSigner(s Secret) *signer {
	return &signer{secret: s, states: sync.Pool{New: func() any {
		return &signerState{mac: hmac.New(sha256.New, s[:])}
	}}}
}

// sign returns the signature of a message: the purpose, the second, the subject after its length, and the namespace.
func (s *signer) sign(purpose byte, second []byte, subject, namespace string) (signature [signatureSize]byte) {
	state := s.states.Get().(*signerState)
	state.message = append(append(state.message[:0], purpose), second...)
	state.message = append(append(state.message, byte(len(subject))), subject...)
	state.message = append(state.message, namespace...)
	state.mac.Reset()
	state.mac.Write(state.message)
	copy(signature[:], state.mac.Sum(state.sum[:0]))
	s.states.Put(state)
	return signature
}
