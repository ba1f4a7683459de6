// The look of inspect's page. Colours of classes and types are defined once for
// light and once for dark; no font, image or script comes from outside.
#ifndef THERMOCLINE_INSPECT_PAGE_STYLE_H_
#define THERMOCLINE_INSPECT_PAGE_STYLE_H_

namespace thermocline::inspect {

inline constexpr char kInspectStyle[] = R"(:root{
color-scheme:light dark;
--bg:#f7f7f5;--card:#fff;--fg:#1b1d21;--muted:#5b626d;--line:#dcdfe4;
--accent:#2467b3;--good:#1c7a3f;--bad:#b3261e;--ink:#14161a;--light:78%;
--embedding:#c8b4ea;--attention:#97c3f0;--ffn:#f7b583;--experts:#ecca5b;
--predictor:#8ed3a3;--norms:#c3c8d0;--head:#f1a1bf;--other:#bdb7aa}
@media (prefers-color-scheme:dark){:root{
--bg:#15171a;--card:#1d2024;--fg:#e7e9ec;--muted:#a0a7b2;--line:#343941;
--accent:#7db3ee;--good:#6fd08f;--bad:#ff8a80;--ink:#fff;--light:32%;
--embedding:#6b4fa0;--attention:#2b669e;--ffn:#a85a26;--experts:#85690e;
--predictor:#2a7a4b;--norms:#5b626e;--head:#a3436a;--other:#686256}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--fg);
font:15px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;
font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
header,main,footer{max-width:1160px;margin:0 auto;padding:0 16px}
header{padding-top:24px}
h1{margin:0;font-size:26px;line-height:1.2}
header p{margin:6px 0 0;color:var(--muted)}
header .runs{color:var(--good)}
header .stops{color:var(--bad)}
section{background:var(--card);border:1px solid var(--line);border-radius:8px;
margin:16px 0;padding:16px}
h2{margin:0 0 4px;font-size:18px}
section p{margin:0 0 12px;color:var(--muted)}
dl{display:grid;margin:0;gap:10px 24px;
grid-template-columns:repeat(auto-fill,minmax(min(100%,215px),1fr))}
dt{color:var(--muted);font-size:13px}
dd{margin:0}
dl .wide{grid-column:1/-1}
.halves{display:grid;gap:16px 32px;
grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr))}
.halves>*{min-width:0}
.ends>*{display:flex;flex-direction:column}
.ends>*>:last-child{margin-top:auto}
table{border-collapse:collapse;width:100%}
th{text-align:left;font-weight:600;color:var(--muted);font-size:13px}
td,th{padding:3px 10px 3px 0;vertical-align:top;overflow-wrap:normal}
td code,#metadata td{overflow-wrap:anywhere}
tbody tr{border-top:1px solid var(--line)}
.n{text-align:right}
.n,#types td{white-space:nowrap}
td i,.legend i{display:inline-block;width:12px;height:12px;border-radius:2px;
margin-right:6px;vertical-align:-1px}
.legend{display:flex;flex-wrap:wrap;gap:4px 16px;list-style:none;
margin:0 0 12px;padding:0;font-size:13px}
.treemap{display:block;width:100%;height:clamp(220px,34vw,390px);
margin-bottom:12px}
.treemap rect{stroke:var(--card);stroke-width:2}
.treemap text{fill:var(--ink);font-size:13px}
.treemap .small{font-size:12px}
.c-embedding{fill:var(--embedding);background:var(--embedding)}
.c-attention{fill:var(--attention);background:var(--attention)}
.c-ffn{fill:var(--ffn);background:var(--ffn)}
.c-experts{fill:var(--experts);background:var(--experts)}
.c-predictor{fill:var(--predictor);background:var(--predictor)}
.c-norms{fill:var(--norms);background:var(--norms)}
.c-head{fill:var(--head);background:var(--head)}
.c-other{fill:var(--other);background:var(--other)}
.layer{display:grid;grid-template-columns:28px 1fr 76px;gap:6px;
height:18px;line-height:18px;font-size:11px;color:var(--muted)}
.layer span{text-align:right;white-space:nowrap}
.layer svg{width:100%;height:14px;margin-top:2px}
.layer rect:hover,.treemap svg:hover rect{filter:brightness(1.12)}
.types{table-layout:fixed;font-size:11px;line-height:16px}
.types th,.types td{padding:0 1px;height:18px;text-align:center;
font-size:11px;font-weight:400;white-space:nowrap;overflow:hidden}
.types tbody tr{border:0}
.types tbody th{text-align:right;padding-right:5px}
.types thead th{height:92px;vertical-align:bottom;padding-bottom:4px}
.types thead span{writing-mode:vertical-rl;transform:rotate(180deg)}
.types td{border:1px solid var(--card)}
[class^=t-]{background:hsl(var(--hue) var(--sat) var(--light));
color:var(--ink)}
.bar{display:block;width:100%;height:12px;margin-top:5px}
.bar rect{fill:var(--accent)}
.bars{width:40%}
details{margin-top:8px}
summary{cursor:pointer;color:var(--accent)}
details table{margin-top:8px;font-size:13px}
code{font:12px/1.5 ui-monospace,"DejaVu Sans Mono",monospace}
footer{color:var(--muted);font-size:13px;padding-bottom:24px}
@media (max-width:560px){
dl{grid-template-columns:repeat(auto-fill,minmax(140px,1fr))}
header,main,footer{padding-left:8px;padding-right:8px}
section{padding:10px}
td,th{padding-right:6px}
.types,.types th,.types td{font-size:8px;letter-spacing:-.3px}
.layer{grid-template-columns:22px 1fr 66px}
.bars{width:25%}}
@media print{section{break-inside:auto;border:0;padding:0}
body{background:#fff}}
)";

}  // namespace thermocline::inspect

#endif  // THERMOCLINE_INSPECT_PAGE_STYLE_H_
