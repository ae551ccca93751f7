#pragma once

namespace tandem::train {

/// Colours after Okabe and Ito, distinguishable with colour blindness; classes a0 to a6 are the
/// activities in order, f0 to f7 the rails.
inline constexpr const char* style_sheet = R"css(
:root { --page:#fcfcfa; --card:#fff; --ink:#20242a; --quiet:#667; --line:#e2e4e8; --frame:#9aa0aa;
  --joint:#0b5fa5; --reference:#f0b95a; --idle:#f1f2f4;
  --a0:#56b4e9; --a1:#0072b2; --a2:#e69f00; --a3:#f0d050; --a4:#cc79a7; --a5:#009e73; --a6:#8a6fbf;
  --r0:#0072b2; --r1:#d55e00; --r2:#009e73; --r3:#cc79a7; --r4:#56b4e9; --r5:#e69f00; --r6:#7a5195; --r7:#8c6d31;
  --lost:#b4b9c1; }
@media (prefers-color-scheme: dark) { :root { --page:#14171b; --card:#1c2026; --ink:#e6e8eb; --quiet:#9aa3ae;
  --line:#30363e; --frame:#6b7480; --joint:#7cc4ff; --reference:#8a6420; --idle:#262b32;
  --a0:#56b4e9; --a1:#2f86c5; --a2:#e69f00; --a3:#d8c04c; --a4:#cc79a7; --a5:#2cb389; --a6:#a58fd6;
  --r0:#4a9fe0; --r1:#f0803c; --r2:#2cb389; --r3:#d98cb8; --r4:#8fd0f5; --r5:#f0b53a; --r6:#b08ad0; --r7:#c2a25a;
  --lost:#59616c; } }
* { box-sizing:border-box; }
body { margin:0; background:var(--page); color:var(--ink); font:16px/1.5 system-ui,"DejaVu Sans",sans-serif; }
main { max-width:1060px; margin:0 auto; padding:32px 20px 64px; }
h1 { font-size:28px; line-height:1.25; margin:0 0 8px; }
h2 { font-size:18px; margin:0; }
p { margin:4px 0 12px; }
.result { font-size:18px; font-weight:600; }
.note { border-left:4px solid var(--reference); padding-left:12px; }
.quiet { color:var(--quiet); font-size:14px; }
p.under { margin-top:14px; }
section { background:var(--card); border:1px solid var(--line); border-radius:10px; padding:18px 20px 12px;
  margin-top:18px; }
svg { display:block; width:100%; height:auto; }
svg text { fill:var(--quiet); font-size:12px; }
svg text.axis { font-size:13px; }
svg text.mark { fill:var(--ink); font-size:11px; }
svg text.strong { fill:var(--ink); font-size:13px; font-weight:600; }
.grid { stroke:var(--line); fill:none; }
.frame { stroke:var(--frame); fill:none; }
.idle { fill:var(--idle); }
.curve { fill:none; stroke-linejoin:round; stroke-linecap:round; }
.joint { stroke:var(--joint); stroke-width:1.8; }
.reference { stroke:var(--reference); stroke-width:6; }
.f0 { fill:var(--r0); background:var(--r0); } .f1 { fill:var(--r1); background:var(--r1); }
.f2 { fill:var(--r2); background:var(--r2); } .f3 { fill:var(--r3); background:var(--r3); }
.f4 { fill:var(--r4); background:var(--r4); } .f5 { fill:var(--r5); background:var(--r5); }
.f6 { fill:var(--r6); background:var(--r6); } .f7 { fill:var(--r7); background:var(--r7); }
.pale { opacity:0.4; } .lost { fill:var(--lost); background:var(--lost); }
.swatch { width:28px; height:10px; }
.a0 { fill:var(--a0); } .a1 { fill:var(--a1); } .a2 { fill:var(--a2); }
.a3 { fill:var(--a3); } .a4 { fill:var(--a4); } .a5 { fill:var(--a5); }
.a6 { fill:var(--a6); }
.legend { display:flex; flex-wrap:wrap; gap:4px 22px; font-size:14px; margin:8px 0 4px; }
.legend span { display:flex; align-items:center; gap:7px; }
.key { width:28px; height:10px; }
.wide { overflow-x:auto; }
table { border-collapse:collapse; font-size:14px; width:100%; }
th, td { text-align:left; padding:5px 10px 5px 0; border-bottom:1px solid var(--line); vertical-align:top; }
td { font-variant-numeric:tabular-nums; }
th { font-weight:600; }
th, .wide td { white-space:nowrap; }
.wide table { font-size:12.5px; }
.wide th, .wide td { padding-right:8px; }
.wide td.words { white-space:normal; min-width:12em; }
.summary th { width:13em; color:var(--quiet); font-weight:500; }
.dot { display:inline-block; width:10px; height:10px; border-radius:2px; margin-right:6px; }
.dot.a0 { background:var(--a0); } .dot.a1 { background:var(--a1); } .dot.a2 { background:var(--a2); }
.dot.a3 { background:var(--a3); } .dot.a4 { background:var(--a4); } .dot.a5 { background:var(--a5); }
.dot.a6 { background:var(--a6); }
)css";

}  // namespace tandem::train
