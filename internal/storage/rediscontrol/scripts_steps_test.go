package rediscontrol

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
)

func (p *pair) send(channel string, message any) {
	p.model.sent = append(p.model.sent, fmt.Sprint(channel, " ", message))
}

func (p *pair) report() {
	p.keys = p.keys[:2]
	m, id, life := &p.model, fmt.Sprint("i", p.r.IntN(3)), p.pick(1, 100_000, 300_000)
	report := fmt.Sprint("{", p.calls, "}")
	m.set(p.keys[0], report, life)
	index := m.sorted(p.keys[1])
	index[id] = p.ms() + life
	maps.DeleteFunc(index, func(_ string, end int64) bool { return end <= p.ms() })
	m.expire(p.keys[1], life)
	p.call(writeReport, []int64{int64(len(index))}, id, report, life)
}

func (p *pair) command() {
	p.keys = p.keys[:1]
	const channel, most, life = "model:commands", 3, 120_000
	m, log := &p.model, p.model.sorted(p.keys[0])
	version := p.now
	for _, v := range log {
		version = max(version, v+1)
	}
	text := fmt.Sprint("c", p.r.IntN(5))
	log[text] = version
	maps.DeleteFunc(log, func(_ string, v int64) bool { return v <= p.now-life*1000 })
	cut(log, most)
	m.expire(p.keys[0], life)
	p.send(channel, version)
	p.call(writeCommand, []int64{version}, channel, text, life, most)
}

func (p *pair) rules() {
	p.keys = p.keys[:3]
	const channel, most, life = "model:rules", 3, 200_000
	m := &p.model
	expected, version := p.pick(m.number(p.keys[1]), m.number(p.keys[1]), 0, 7), int64(p.calls+1)
	text, entry := fmt.Sprint("{rules ", version, "}"), fmt.Sprint("{entry ", version, "}")
	code := int64(0)
	if expected == m.number(p.keys[1]) {
		code = 1
		m.set(p.keys[0], text, life)
		m.set(p.keys[1], fmt.Sprint(version), life)
		m.push(p.keys[2], entry, most)
		m.expire(p.keys[2], life)
		p.send(channel, version)
	}
	p.call(writeRules, []int64{code}, expected, version, text, entry, most, life, channel)
}

func (p *pair) bounds() {
	p.keys = p.keys[:2]
	m, token, bounds := &p.model, fmt.Sprint("t", p.r.IntN(2)), fmt.Sprint("{", p.calls, "}")
	if p.r.IntN(4) == 0 { // its lease is over
		delete(m.values, p.keys[0])
		if err := p.c.rdb.Del(p.t.Context(), p.keys[0]).Err(); err != nil {
			p.t.Fatal(err)
		}
	}
	code := int64(0)
	if owner := m.text(p.keys[0]); owner == "" || owner == token {
		code = 1
		m.set(p.keys[0], token, 100_000)
		m.set(p.keys[1], bounds, 300_000)
	}
	p.call(publishBounds, []int64{code}, token, bounds, 100_000, 300_000)
}

func (p *pair) overrides() {
	p.keys = p.keys[:10]
	if p.r.IntN(5) == 0 {
		p.restore()
		return
	}
	if p.r.IntN(6) == 0 {
		p.changeByOlderProgram()
	}
	m := &p.model
	entries, until := m.hash(p.keys[0]), m.sorted(p.keys[1])
	stored := m.number(p.keys[2])
	id := []string{"", "a", "b", "c", "d"}[p.r.IntN(5)]
	expected := entries[id]
	if p.r.IntN(4) == 0 {
		expected = "other"
	}
	entry := []string{"", fmt.Sprint("{", p.calls, "}"), fmt.Sprint("{", p.calls, "}")}[p.r.IntN(3)]
	end := p.pick(0, p.ms(), p.ms()+1, p.ms()+100_000)
	least := p.pick(0, stored, stored, stored+1)
	if stored == 0 {
		least = p.pick(0, 1)
	}
	action := "put"
	if entry == "" {
		action = "delete"
	}
	audit := p.change(id, action)
	code, ended, made := int64(-2), int64(0), int64(0)
	log := p.audit()
	if stored >= least && !log.copyRecent() {
		code = notCopied
		log.write()
	} else if stored >= least {
		for _, gone := range byScore(until) {
			if until[gone] <= p.ms() {
				delete(until, gone)
				delete(entries, gone)
				m.sorted(p.keys[7])[gone] = stored
				ended++
			}
		}
		code = 1
		switch {
		case id == "":
		case entries[id] != expected:
			code = 0
		case entry == "":
			delete(entries, id)
			delete(until, id)
		case entries[id] == "" && len(entries) >= 3:
			code = -1
		default:
			entries[id] = entry
			if delete(until, id); end > 0 {
				until[id] = end
			}
		}
		if code == 1 && id != "" {
			made = max(stored+1, p.now)
			log.add(fmt.Sprintf(`{"revision":%d,%s`, made, audit[1:]))
			m.push(p.keys[9], fmt.Sprintf("%d %d %s", made, stored, id), 3)
			m.values[p.keys[2]] = fmt.Sprint(made)
			p.send(overrideChannel, made)
		}
		log.end()
	}
	p.call(writeOverride, []int64{code, ended, made, log.dropped, log.bytes},
		append(auditArgs(), id, expected, entry, end, audit, 3, least, 3)...)
}

// change returns an audit entry of some author.
func (p *pair) change(id, action string) string {
	author := []string{"", "ann", `bob \",\"action\":\"`, "a:b"}[p.r.IntN(4)]
	return fmt.Sprintf(`{"at":"%d","author":"%s","action":"%s","id":"%s","of":"%s"}`, p.calls, author, action, id,
		strings.Repeat("x", p.r.IntN(300)))
}

// changeByOlderProgram makes changes as a program of an earlier version does: with an entry in the list alone.
func (p *pair) changeByOlderProgram() {
	p.t.Helper()
	m := &p.model
	version, areRestored := m.number(p.keys[2]), p.r.IntN(3) == 0 // together, at one version
	for i := range 1 + p.r.IntN(8) {
		if i == 0 || !areRestored {
			version = max(version+1, p.now)
		}
		action := []string{"put", "delete"}[p.r.IntN(2)]
		text := fmt.Sprintf(`{"revision":%d,%s`, version, p.change(fmt.Sprint("d", i), action)[1:])
		m.set(p.keys[2], fmt.Sprint(version), overrideLifeMS)
		m.push(p.keys[3], text, recentLength)
		m.lives[p.keys[3]] = overrideLifeMS
		const clockAdds = 3_600_000 // see redistest.Clock
		pipe := p.c.rdb.Pipeline()
		pipe.Set(p.t.Context(), p.keys[2], version, (overrideLifeMS+clockAdds)*time.Millisecond)
		pipe.LPush(p.t.Context(), p.keys[3], text)
		pipe.LTrim(p.t.Context(), p.keys[3], 0, recentLength-1)
		pipe.PExpire(p.t.Context(), p.keys[3], (overrideLifeMS+clockAdds)*time.Millisecond)
		if _, err := pipe.Exec(p.t.Context()); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *pair) restore() {
	m := &p.model
	stored := m.number(p.keys[2])
	found, version := p.pick(stored, stored, stored-1), p.pick(stored, stored+1, stored+5)
	ends := []int64{0, p.ms(), p.ms() + 1, p.ms() + 50_000}[:p.r.IntN(5)]
	args := append(auditArgs(), version, found, len(ends))
	for i, end := range ends {
		args = append(args, fmt.Sprint("r", i), fmt.Sprint("{r", p.calls, "}"), end)
	}
	var audit []string
	for i := range p.r.IntN(4) {
		action := []string{"put", "delete"}[p.r.IntN(2)]
		audit = append(audit, fmt.Sprintf(`{"revision":%d,%s`, version, p.change(fmt.Sprint("r", i), action)[1:]))
		args = append(args, audit[i])
	}
	code, log := int64(0), p.audit()
	if stored == found && stored < version && !log.copyRecent() {
		code = notCopied
		log.write()
	} else if stored == found && stored < version {
		code = 1
		entries, until := map[string]string{}, map[string]int64{}
		for i, end := range ends {
			if end == 0 || end > p.ms() {
				entries[fmt.Sprint("r", i)] = fmt.Sprint("{r", p.calls, "}")
			}
			if end > p.ms() {
				until[fmt.Sprint("r", i)] = end
			}
		}
		m.values[p.keys[0]], m.values[p.keys[1]] = entries, until
		delete(m.values, p.keys[9])
		for _, a := range audit {
			log.add(a)
		}
		m.values[p.keys[2]] = fmt.Sprint(version)
		p.send(overrideChannel, version)
		log.end()
	}
	p.call(restoreOverrides, []int64{code, log.dropped, log.bytes}, args...)
}

// claimed returns the content of an epoch's key.
func (p *pair) claimed(key string) (epoch int64, owner string, end int64) {
	parts := strings.Fields(p.model.text(key))
	if len(parts) != 3 {
		return 0, "", 0
	}
	epoch, _ = strconv.ParseInt(parts[0], 10, 64)
	end, _ = strconv.ParseInt(parts[2], 10, 64)
	return epoch, parts[1], end
}

// hot claims an id, or publishes under it.
func (p *pair) hot() {
	if p.r.IntN(6) == 0 {
		p.claim()
		return
	}
	const life, lease, versionLife, epochLife, keep, channel = 100_000, 30_000, 400_000, 500_000, 2, "model:hot"
	m, now := &p.model, p.ms()
	epoch, owner, _ := p.claimed(p.keys[3])
	token := fmt.Sprint("t", p.r.IntN(2))
	set := m.hash(p.keys[2])
	field := func(name string) int64 { n, _ := strconv.ParseInt(set[name], 10, 64); return n }
	seq, floor := field("seq")+p.pick(0, 1, 1, 1, 2), p.pick(0, m.number(p.keys[0]), m.number(p.keys[0])+5, now+3)
	from := p.pick(0, field("version"), field("version"), field("version"), field("version")-1)
	body, change, publisher := "", "", fmt.Sprint("p", p.r.IntN(3))
	if from <= 0 || p.r.IntN(3) == 0 {
		from, body = max(from, 0), fmt.Sprint("body", p.calls)
	}
	if from > 0 {
		change = fmt.Sprint("change", p.calls)
	}
	flag := []string{"", "blind", "stopped"}[p.r.IntN(3)]
	log := m.sorted(p.keys[4])
	if p.r.IntN(10) == 0 { // it has expired alone
		clear(log)
		if err := p.c.rdb.Del(p.t.Context(), p.keys[4]).Err(); err != nil {
			p.t.Fatal(err)
		}
	}
	ours := field("epoch") == epoch
	args := []any{publisher, token, seq, floor, from, change, 77, "enc", body, keep, life, lease, versionLife,
		epochLife, channel, flag, life}
	received := map[string]string{}
	for i := range p.r.IntN(3) {
		field, value := fmt.Sprint("flow", p.r.IntN(9)), fmt.Sprint(p.calls, i)
		args, received[field] = append(args, field, value), value
	}
	switch {
	case owner != token:
		p.call(publishHot, []int64{0, 0, epoch}, args...)
		return
	case ours && field("seq") >= seq:
		p.call(publishHot, []int64{-1, 0, epoch}, args...)
		return
	case from > 0 && (!ours || field("version") != from || field("base") != from && len(log) == 0):
		p.call(publishHot, []int64{-2, 0, epoch}, args...)
		return
	}
	m.set(p.keys[3], fmt.Sprint(epoch, " ", token, " ", now+lease), epochLife)
	version := max(m.number(p.keys[0])+1, floor+1, now)
	m.set(p.keys[0], fmt.Sprint(version), versionLife)
	set["epoch"], set["seq"], set["version"] = fmt.Sprint(epoch), fmt.Sprint(seq), fmt.Sprint(version)
	if body != "" || from == 0 {
		set["base"], set["at"], set["encoding"], set["body"] = fmt.Sprint(version), "77", "enc", body
		cut(log, keep)
	}
	m.expire(p.keys[2], life)
	if from > 0 {
		log[fmt.Sprint(version, " ", from, " ", epoch, " ", change)] = version
	}
	if m.expire(p.keys[4], life); len(log) == 0 {
		delete(m.values, p.keys[9])
	}
	if len(received) > 0 {
		m.set(p.keys[5], received, life)
	}
	p.index(publisher, fmt.Sprint(version, " ", flag, map[bool]string{true: " "}[flag != ""], now+life), life)
	p.send(channel, version)
	p.call(publishHot, []int64{1, version, epoch}, args...)
}

// index renews a publisher's entry; the entry of another publisher may end later, or have ended.
func (p *pair) index(publisher, line string, life int64) {
	m, now := &p.model, p.ms()
	index := m.hash(p.keys[1])
	if p.r.IntN(4) == 0 {
		end := now + p.pick(-5, 0, 1, 300_000)
		index["other"] = fmt.Sprint("5 ", end)
		if err := p.c.rdb.HSet(p.t.Context(), p.keys[1], "other", index["other"]).Err(); err != nil {
			p.t.Fatal(err)
		}
	}
	longest := life
	for id, text := range index {
		parts := strings.Fields(text)
		end, _ := strconv.ParseInt(parts[len(parts)-1], 10, 64)
		if end <= now {
			delete(index, id)
		} else if id != publisher {
			longest = max(longest, end-now)
		}
	}
	index[publisher] = line
	m.expire(p.keys[1], longest)
}

func (p *pair) claim() {
	m, now := &p.model, p.ms()
	epoch, owner, end := p.claimed(p.keys[3])
	token, floor, lease := fmt.Sprint("t", p.r.IntN(2)), p.pick(0, epoch, epoch+9, now, now+9), p.pick(0, 20_000,
		60_000, 60_001)
	const life = 450_000
	all := p.keys
	p.keys = []string{all[3]}
	defer func() { p.keys = all }()
	if owner != token {
		switch {
		case lease == 0:
			p.call(claimHot, []int64{2, epoch, 0}, token, floor, lease, life)
			return
		case end > now && end <= now+60_000:
			p.call(claimHot, []int64{0, epoch, end - now}, token, floor, lease, life)
			return
		}
		epoch = max(epoch+1, floor+1, now)
	}
	m.set(all[3], fmt.Sprint(epoch, " ", token, " ", now+lease), life)
	code := int64(1)
	if lease == 0 {
		code = 2
	}
	p.call(claimHot, []int64{code, epoch, lease}, token, floor, lease, life)
}
